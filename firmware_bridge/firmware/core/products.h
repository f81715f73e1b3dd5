/* Sums of products of int8, for each set of instructions: all of the time of a convolution.
 *
 * A patch is a row of inputs, in the format that the set needs; `rows` are rows of weights of `depth`
 * elements each, one row per channel. */
#ifndef CORE_PRODUCTS_H
#define CORE_PRODUCTS_H

#include <string.h>

#include "core/convolution.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
typedef int8_t patch_type;
#define PATCH_ELEMENTS(depth) (depth)
#elif defined(__ARM_FEATURE_DSP)
#include "core/dsp.h"
typedef int16_t patch_type;
#define PATCH_ELEMENTS(depth) ROUND_UP(depth, 4) /* zeros at its end */
#else
typedef int8_t patch_type;
#define PATCH_ELEMENTS(depth) (depth)
#endif

#if defined(__ARM_FEATURE_MVE)

/* A loop of 16 products a turn; its last turn has as many lanes as elements are left. In assembler, because
 * GCC 12 makes no such loops. */
#define LOOP(turn) "wlstp.8 lr, %[depth], 2f\n1:\n\t" turn "letp lr, 1b\n2:\n\t"
#define TIMES_ROW(row, sum) "vldrb.8 q1, [%[" row "]], #16\n\tvmladava.s8 %[" sum "], q0, q1\n\t"

/* Sums of four channels; VMLADAVA takes scalar registers of even numbers. */
static inline int32x4_t products_1x4(const int8_t *a, const int8_t *rows, int32_t depth, int32x4_t start)
{
	const int8_t *r0 = rows, *r1 = r0 + depth, *r2 = r1 + depth, *r3 = r2 + depth;
	int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
	int32x4_t sum;

	__asm__ volatile(LOOP("vldrb.8 q0, [%[a]], #16\n\t" TIMES_ROW("r0", "s0") TIMES_ROW("r1", "s1")
				      TIMES_ROW("r2", "s2") TIMES_ROW("r3", "s3"))
			 "vmov %q[sum][2], %q[sum][0], %[s0], %[s2]\n\t"
			 "vmov %q[sum][3], %q[sum][1], %[s1], %[s3]"
			 : [sum] "=w"(sum), [a] "+r"(a), [r0] "+r"(r0), [r1] "+r"(r1), [r2] "+r"(r2),
			   [r3] "+r"(r3), [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3)
			 : [depth] "r"(depth)
			 : "q0", "q1", "lr", "memory");
	return vaddq_s32(start, sum);
}

static inline int32_t products(const int8_t *a, const int8_t *row, int32_t depth, int32_t sum)
{
	__asm__ volatile(LOOP("vldrb.8 q0, [%[a]], #16\n\t" TIMES_ROW("row", "sum"))
			 : [a] "+r"(a), [row] "+r"(row), [sum] "+Te"(sum)
			 : [depth] "r"(depth)
			 : "q0", "q1", "lr", "memory");
	return sum;
}

#elif defined(__ARM_FEATURE_DSP)

static __attribute__((noinline)) void products_2x2(const int16_t *a, const int16_t *b, const int8_t *u, const int8_t *v,
				int32_t depth, int32_t sum[4])
{
	const uint32_t *wa = (const uint32_t *)(const void *)a, *wb = (const uint32_t *)(const void *)b;
	int32_t s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];

	for (; depth > 0; depth -= 4) {
		uint32_t wu = word_at(u), wv = word_at(v);
		int16x2_t u_even = even_bytes(wu), u_odd = odd_bytes(wu);
		int16x2_t v_even = even_bytes(wv), v_odd = odd_bytes(wv);
		int16x2_t a_even = (int16x2_t)wa[0], a_odd = (int16x2_t)wa[1];
		int16x2_t b_even = (int16x2_t)wb[0], b_odd = (int16x2_t)wb[1];

		s0 = __smlad(a_even, u_even, s0);
		s1 = __smlad(a_even, v_even, s1);
		s2 = __smlad(b_even, u_even, s2);
		s3 = __smlad(b_even, v_even, s3);
		s0 = __smlad(a_odd, u_odd, s0);
		s1 = __smlad(a_odd, v_odd, s1);
		s2 = __smlad(b_odd, u_odd, s2);
		s3 = __smlad(b_odd, v_odd, s3);
		wa += 2, wb += 2, u += 4, v += 4;
	}
	sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
}

/* Two channels. */
static inline void products_1x2(const int16_t *a, const int8_t *rows, int32_t depth, int32_t sum[2])
{
	const uint32_t *wa = (const uint32_t *)(const void *)a;
	const int8_t *u = rows, *v = rows + depth;
	int32_t s0 = sum[0], s1 = sum[1];

	for (; depth > 0; depth -= 4) {
		uint32_t wu = word_at(u), wv = word_at(v);
		int16x2_t a_even = (int16x2_t)wa[0], a_odd = (int16x2_t)wa[1];

		s0 = __smlad(a_even, even_bytes(wu), s0);
		s1 = __smlad(a_even, even_bytes(wv), s1);
		s0 = __smlad(a_odd, odd_bytes(wu), s0);
		s1 = __smlad(a_odd, odd_bytes(wv), s1);
		wa += 2, u += 4, v += 4;
	}
	sum[0] = s0, sum[1] = s1;
}

static inline int32_t products(const int16_t *a, const int8_t *u, int32_t depth, int32_t sum)
{
	const uint32_t *wa = (const uint32_t *)(const void *)a;

	for (; depth > 0; depth -= 4) {
		uint32_t wu = word_at(u);

		sum = __smlad((int16x2_t)wa[0], even_bytes(wu), sum);
		sum = __smlad((int16x2_t)wa[1], odd_bytes(wu), sum);
		wa += 2, u += 4;
	}
	return sum;
}

/* A row of int8 as pairs of int16, with zeros up to a multiple of four. */
static const int16_t *widened(const int8_t *row, int32_t depth, int16_t *to)
{
	uint32_t *pair = (uint32_t *)(void *)to;
	int32_t whole = depth & ~3;

	for (int32_t i = 0; i < whole; i += 4) {
		uint32_t word = word_at(row + i);

		*pair++ = (uint32_t)even_bytes(word);
		*pair++ = (uint32_t)odd_bytes(word);
	}
	if (whole < depth) {
		uint32_t word = 0;

		memcpy(&word, row + whole, (size_t)(depth - whole));
		*pair++ = (uint32_t)even_bytes(word);
		*pair++ = (uint32_t)odd_bytes(word);
	}
	return to;
}

#else

static __attribute__((noinline)) void products_2x2(const int8_t *a, const int8_t *b, const int8_t *u, const int8_t *v,
				int32_t depth, int32_t sum[4])
{
	uint32_t s0 = (uint32_t)sum[0], s1 = (uint32_t)sum[1], s2 = (uint32_t)sum[2], s3 = (uint32_t)sum[3];

#pragma GCC unroll 4
	for (int32_t i = 0; i < depth; i++) {
		s0 += (uint32_t)(a[i] * u[i]);
		s1 += (uint32_t)(a[i] * v[i]);
		s2 += (uint32_t)(b[i] * u[i]);
		s3 += (uint32_t)(b[i] * v[i]);
	}
	sum[0] = (int32_t)s0, sum[1] = (int32_t)s1, sum[2] = (int32_t)s2, sum[3] = (int32_t)s3;
}

/* Two channels. */
static inline void products_1x2(const int8_t *a, const int8_t *rows, int32_t depth, int32_t sum[2])
{
	const int8_t *u = rows, *v = rows + depth;
	uint32_t s0 = (uint32_t)sum[0], s1 = (uint32_t)sum[1];

#pragma GCC unroll 4
	for (int32_t i = 0; i < depth; i++) {
		s0 += (uint32_t)(a[i] * u[i]);
		s1 += (uint32_t)(a[i] * v[i]);
	}
	sum[0] = (int32_t)s0, sum[1] = (int32_t)s1;
}

static inline int32_t products(const int8_t *a, const int8_t *row, int32_t depth, int32_t sum)
{
	return row_products(a, row, (uint32_t)depth, sum);
}

#endif

#endif
