/* Words of a command. */
#ifndef DEVICE_WORDS_H
#define DEVICE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* The next word of the line; NULL at its end. */
char *next_word(char **rest);
bool is_word(const char *word, const char *expected);
/* Same as atoi, but too large numbers saturate. */
int64_t number_of(const char *word);
/* Value of a hexadecimal digit; negative for any other character. */
int digit_of(char character);

#endif
