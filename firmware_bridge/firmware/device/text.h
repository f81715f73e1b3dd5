/* Text for the line; written when it is flushed, or the buffer is full. */
#ifndef DEVICE_TEXT_H
#define DEVICE_TEXT_H

#include <stddef.h>
#include <stdint.h>

void put(const char *text);
void put_bytes(const uint8_t *data, size_t size); /* raw */
void put_unsigned(uint64_t value);
void put_signed(int64_t value);
void put_hex(const uint8_t *data, size_t size);
void put_word_hex(uint32_t value); /* eight digits */
void put_decimal(double value);	   /* same as printf's %.3f */
/* The parts of a line in order; the last argument is NULL. */
void put_line(const char *first, ...);
void put_flush(void);

#endif
