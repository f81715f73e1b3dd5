#include "device/words.h"

#include <string.h>

char *next_word(char **rest)
{
	char *word = *rest;

	while (*word == ' ')
		word++;
	if (!*word)
		return NULL;
	*rest = word;
	while (**rest && **rest != ' ')
		(*rest)++;
	if (**rest)
		*(*rest)++ = 0;
	return word;
}

bool is_word(const char *word, const char *expected) { return strcmp(word, expected) == 0; }

int64_t number_of(const char *word)
{
	bool is_negative = *word == '-';
	int64_t value = 0;

	for (word += *word == '-' || *word == '+'; *word >= '0' && *word <= '9'; word++)
		if (value <= INT32_MAX)
			value = value * 10 + (*word - '0');
	if (value > UINT32_MAX)
		value = UINT32_MAX;
	return is_negative ? -value : value;
}

int digit_of(char character)
{
	if (character >= '0' && character <= '9')
		return character - '0';
	if (character >= 'a' && character <= 'f')
		return character - 'a' + 10;
	return character >= 'A' && character <= 'F' ? character - 'A' + 10 : -1;
}
