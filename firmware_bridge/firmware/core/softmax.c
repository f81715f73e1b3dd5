/* Softmax in fixed point, as gemmlowp and TFLite's reference kernel compute it.
 *
 * Q5 is a number of int32 with 5 bits before the point, and so on. The constants are powers of e
 * and those of Newton's division, in the format that their names say. */
#include "core/fixed_point.h"
#include "core/kernels.h"

#define SUM_BITS 12 /* before the point, in the sum of the exponentials */

static int32_t saturating_left(int32_t value, int32_t bits)
{
	int64_t shifted = (int64_t)value * ((int64_t)1 << bits);

	return shifted > INT32_MAX ? INT32_MAX : shifted < INT32_MIN ? INT32_MIN : (int32_t)shifted;
}

/* exp of a Q0 in [-1/4, 0), in Q0: the first terms of a Taylor series around -1/8. */
static int32_t exp_of_small(int32_t a)
{
	const int32_t exp_of_eighth = 1895147668, third = 715827883; /* Q0: exp(-1/8), 1/3 */
	int32_t x = a + (1 << 28);
	int32_t x2 = doubling_high(x, x), x3 = doubling_high(x2, x), x4 = doubling_high(x2, x2);
	int32_t rest = rounding_right(doubling_high(rounding_right(x4, 2) + x3, third) + x2, 1);

	return exp_of_eighth + doubling_high(exp_of_eighth, x + rest);
}

/* exp of a Q5 <= 0, in Q0. */
static int32_t exp_of(int32_t a)
{
	/* Q0: exp(-1/4), exp(-1/2), exp(-1), exp(-2), exp(-4), exp(-8), exp(-16). */
	static const int32_t powers[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
	const int32_t quarter = 1 << 24;
	int32_t small = (a & (quarter - 1)) - quarter;
	int32_t result = exp_of_small(saturating_left(small, 5));
	int32_t remainder = small - a;

	if (a == 0)
		return INT32_MAX;
	for (int i = 0; i < 7; i++)
		if (remainder & (1 << (24 + i)))
			result = doubling_high(result, powers[i]);
	return result;
}

/* 1 / (1 + a) of a Q0 in [0, 1), in Q0: three steps of Newton's division. */
static int32_t reciprocal_above_one(int32_t a)
{
	const int32_t c48_17 = 1515870810, c32_17 = 1010580540; /* Q2: 48/17, 32/17 */
	int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
	int32_t x = c48_17 + doubling_high(half, -c32_17);

	for (int i = 0; i < 3; i++) {
		int32_t miss = (1 << 29) - doubling_high(half, x);

		x += saturating_left(doubling_high(x, miss), 2);
	}
	return saturating_left(x, 1);
}

static void softmax_of_row(const struct operands *o, const int8_t *in, uint32_t first, uint32_t depth)
{
	bool is_wide = o->out->type == TYPE_INT16;
	int32_t out_bits = is_wide ? 16 : 8, lowest = is_wide ? INT16_MIN : INT8_MIN, highest = is_wide ? INT16_MAX : INT8_MAX;
	const int32_t *p = o->operator->p;
	int32_t largest = INT8_MIN, bits_over_one;
	uint32_t sum = 0, headroom;

	for (uint32_t i = 0; i < depth; i++)
		largest = in[i] > largest ? in[i] : largest;
	for (uint32_t i = 0; i < depth; i++) {
		int32_t below = in[i] - largest;

		if (below >= p[P_DIFF_MIN])
			sum += (uint32_t)rounding_right(
				exp_of(doubling_high(wrapping_left(below, p[P_BETA_SHIFT]),
						     p[P_BETA_MULTIPLIER])),
				SUM_BITS);
	}
	headroom = sum ? (uint32_t)__builtin_clz(sum) : 31;
	bits_over_one = SUM_BITS - (int32_t)headroom;
	int32_t scale = reciprocal_above_one((int32_t)((sum << headroom) - (1u << 31)));

	for (uint32_t i = 0; i < depth; i++) {
		int32_t below = in[i] - largest, value = 0, bits = bits_over_one + 31 - out_bits;

		if (below >= p[P_DIFF_MIN] && bits <= 31)
			value = rounding_right(
				doubling_high(scale, exp_of(doubling_high(wrapping_left(below, p[P_BETA_SHIFT]),
									 p[P_BETA_MULTIPLIER]))),
				bits);
		value = clamp(value + lowest, lowest, highest);
		if (is_wide)
			((int16_t *)o->result)[first + i] = (int16_t)value;
		else
			((int8_t *)o->result)[first + i] = (int8_t)value;
	}
}

void softmax(const struct operands *o)
{
	const int8_t *in = o->a;
	uint32_t depth = o->in->size[3];

	for (uint32_t done = 0; done < o->in->bytes; done += depth)
		softmax_of_row(o, in + done, done, depth);
}
