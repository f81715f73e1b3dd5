/* Words of four int8, for processors with DSP instructions. */
#ifndef CORE_DSP_H
#define CORE_DSP_H

#include <arm_acle.h>
#include <stdint.h>

/* Bytes 0 and 2 of a word as int16, and bytes 1 and 3; ACLE has no name for the rotation. */
static inline int16x2_t even_bytes(uint32_t word) { return __sxtb16((int8x4_t)word); }

static inline int16x2_t odd_bytes(uint32_t word)
{
	int16x2_t pair;
	__asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
	return pair;
}

static inline uint32_t word_at(const void *at)
{
	typedef uint32_t __attribute__((may_alias, aligned(1))) anywhere;

	return *(const anywhere *)at; /* one LDR: rows of weights need not be aligned */
}

#endif
