/* The part of <string.h> that this firmware uses; a freestanding compiler does not include it. */
#ifndef FREESTANDING_STRING_H
#define FREESTANDING_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
void *memchr(const void *data, int value, size_t size);
int strcmp(const char *a, const char *b);
size_t strlen(const char *text);

#endif
