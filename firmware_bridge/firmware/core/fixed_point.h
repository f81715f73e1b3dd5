/* Fixed-point arithmetic of TFLite's quantisation: Jacob et al., "Quantization and Training of
 * Neural Networks for Efficient Integer-Arithmetic-Only Inference" (2018), section 2.2. */
#ifndef CORE_FIXED_POINT_H
#define CORE_FIXED_POINT_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

/* Sums of products wrap, as they do in the reference on every real machine. */
static inline int32_t wrapping_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static inline int32_t wrapping_subtract(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
static inline int32_t wrapping_left(int32_t a, int32_t bits) { return (int32_t)((uint32_t)a << bits); }

static inline int32_t clamp(int32_t value, int32_t low, int32_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* a * b / 2^31, halves rounded up. */
static inline int32_t doubling_high(int32_t a, int32_t b)
{
	if (a == INT32_MIN && b == INT32_MIN)
		return INT32_MAX;
	return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* The same with a non-negative factor, so that it cannot overflow. */
static inline int32_t doubling_high_by(int32_t a, int32_t factor)
{
	return (int32_t)(((int64_t)a * factor + (1 << 30)) >> 31);
}

/* value / 2^bits, halves rounded away from zero; bits from 0 to 31, value not INT32_MIN. */
static inline int32_t rounding_right(int32_t value, int32_t bits)
{
	int32_t lower = value + (value >> 31);
	return bits == 0 ? value : ((lower >> (bits - 1)) + 1) >> 1;
}

/* value * multiplier * 2^(shift - 31), rounded as in gemmlowp: after each of the two steps. */
static inline int32_t scale_twice(int32_t value, int32_t multiplier, int32_t shift)
{
	if (shift > 0)
		return doubling_high_by(wrapping_left(value, shift), multiplier);
	return rounding_right(doubling_high_by(value, multiplier), -shift);
}

/* The same rounded once, halves up. */
static inline int32_t scale_once(int32_t value, int32_t multiplier, int32_t shift)
{
	int32_t bits = 31 - shift;
	return (int32_t)(((int64_t)value * multiplier + ((int64_t)1 << (bits - 1))) >> bits);
}

#if defined(__ARM_FEATURE_MVE)

/* scale_twice of four values. VQRDMULH saturates only INT32_MIN * INT32_MIN; multipliers are not negative. */
static inline int32x4_t scale_twice_four(int32x4_t value, int32x4_t multiplier, int32x4_t shift, bool has_left)
{
	int32x4_t right = shift;

	if (has_left) {
		value = vshlq_s32(value, vmaxq_s32(shift, vdupq_n_s32(0)));
		right = vminq_s32(shift, vdupq_n_s32(0));
	}
	value = vqrdmulhq_s32(value, multiplier);
	/* VRSHL rounds halves up; a negative value is less by one before it, but not if it is not shifted. */
	return vrshlq_s32(vaddq_s32(value, vshrq_n_s32(vandq_s32(value, right), 31)), right);
}

/* scale_once of four values with shifts of at most HIGH_SHIFT_MAX: only then the upper words suffice. */
#define HIGH_SHIFT_MAX (-2)
static inline int32x4_t scale_once_four(int32x4_t value, int32x4_t multiplier, int32x4_t shift)
{
	return vrshlq_s32(vmulhq_s32(value, multiplier), vaddq_n_s32(shift, 1));
}

static inline int32x4_t clamp_four(int32x4_t value, int32_t low, int32_t high)
{
	return vmaxq_s32(vminq_s32(value, vdupq_n_s32(high)), vdupq_n_s32(low));
}

#endif

#endif
