/* The functions of a C library that compilers require, and that this firmware uses. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A word at any address: the compiler uses bytes for processors that cannot read it at once. */
typedef uint32_t __attribute__((may_alias, aligned(1))) word;

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	uint8_t *out = to;
	const uint8_t *in = from;

	for (; size >= 4; size -= 4, out += 4, in += 4)
		*(word *)(void *)out = *(const word *)(const void *)in;
	while (size--)
		*out++ = *in++;
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	uint8_t *out = to;
	const uint8_t *in = from;

	if ((uintptr_t)out - (uintptr_t)in >= size)
		return memcpy(to, from, size);
	while (size--)
		out[size] = in[size];
	return to;
}

void *memset(void *to, int value, size_t size)
{
	uint8_t *out = to;
	uint32_t four = (uint8_t)value * 0x01010101u;

	for (; size >= 4; size -= 4, out += 4)
		*(word *)(void *)out = four;
	while (size--)
		*out++ = (uint8_t)value;
	return to;
}

void *memchr(const void *data, int value, size_t size)
{
	const uint8_t *byte = data;

	for (; size--; byte++)
		if (*byte == (uint8_t)value)
			return (void *)(uintptr_t)byte;
	return NULL;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (uint8_t)*a - (uint8_t)*b;
}

size_t strlen(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}
