#include "device/text.h"

#include <stdarg.h>

#include "device/port.h"

static const char DIGITS[] = "0123456789abcdef";
static char buffer[512];
static size_t used;

void put_flush(void)
{
	if (used)
		port_write(buffer, used);
	used = 0;
}

static void put_character(char character)
{
	if (used == sizeof buffer)
		put_flush();
	buffer[used++] = character;
}

void put(const char *text)
{
	while (*text)
		put_character(*text++);
}

void put_bytes(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		put_character((char)data[i]);
}

void put_unsigned(uint64_t value)
{
	char digits[20];
	size_t count = 0;

	do
		digits[count++] = DIGITS[value % 10];
	while (value /= 10);
	while (count)
		put_character(digits[--count]);
}

void put_signed(int64_t value)
{
	if (value < 0)
		put_character('-');
	put_unsigned(value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void put_hex(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		put_character(DIGITS[data[i] >> 4]);
		put_character(DIGITS[data[i] & 15]);
	}
}

void put_word_hex(uint32_t value)
{
	for (int shift = 28; shift >= 0; shift -= 4)
		put_character(DIGITS[value >> shift & 15]);
}

void put_decimal(double value)
{
	const double largest = 9e15; /* larger doubles have no thousandths */
	double thousandths;
	uint64_t whole;

	if (value != value)
		value = 0;
	if (__builtin_signbit(value)) {
		put_character('-');
		value = -value;
	}
	thousandths = value * 1000 < largest ? value * 1000 : largest;
	whole = (uint64_t)thousandths;
	double rest = thousandths - (double)whole;

	whole += rest > 0.5 || (rest == 0.5 && (whole & 1));
	put_unsigned(whole / 1000);
	put_character('.');
	put_character(DIGITS[whole / 100 % 10]);
	put_character(DIGITS[whole / 10 % 10]);
	put_character(DIGITS[whole % 10]);
}

void put_line(const char *first, ...)
{
	va_list rest;

	va_start(rest, first);
	for (const char *part = first; part; part = va_arg(rest, const char *))
		put(part);
	va_end(rest);
	put("\r\n");
}
