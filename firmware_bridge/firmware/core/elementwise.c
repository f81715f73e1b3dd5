/* Operators that process a single element of each input at a time, or four with Helium. */
#include <string.h>

#include "core/fixed_point.h"
#include "core/kernels.h"

/* Source: tensorflow/lite/kernels/add.cc. */
#define ADD_LEFT_SHIFT 20
#define ADD_LEFT_SHIFT_OF_WORDS 15

static inline int32_t scaled(const struct operands *o, int32_t value, int32_t multiplier, int32_t shift)
{
	return o->operator->flags & FLAG_ROUND_ONCE ? scale_once(value, multiplier, shift)
						    : scale_twice(value, multiplier, shift);
}

static inline __attribute__((always_inline)) int32_t sum_with(const struct operands *o, int32_t a, int32_t b,
							     int32_t bits, bool is_difference)
{
	const int32_t *p = o->operator->p;
	int32_t left = scaled(o, wrapping_left(a - p[P_ZERO_A], bits), p[P_MULTIPLIER_A], p[P_SHIFT_A]);
	int32_t right = scaled(o, wrapping_left(b - p[P_ZERO_B], bits), p[P_MULTIPLIER_B], p[P_SHIFT_B]);
	int32_t sum = is_difference ? wrapping_subtract(left, right) : wrapping_add(left, right);
	int32_t value = scaled(o, sum, p[P_MULTIPLIER_OUT], p[P_SHIFT_OUT]);

	return clamp(wrapping_add(value, p[P_ZERO_OUT]), p[P_ACT_MIN], p[P_ACT_MAX]);
}

static inline int32_t sum_of(const struct operands *o, int32_t a, int32_t b)
{
	return sum_with(o, a, b, ADD_LEFT_SHIFT, false);
}

static inline int32_t difference_of(const struct operands *o, int32_t a, int32_t b)
{
	return sum_with(o, a, b, ADD_LEFT_SHIFT, true);
}

/* Or their difference. */
static int32_t sum_of_words(const struct operands *o, int32_t a, int32_t b)
{
	return sum_with(o, a, b, ADD_LEFT_SHIFT_OF_WORDS, o->operator->kind == KIND_SUB);
}

static inline int32_t product_of(const struct operands *o, int32_t a, int32_t b)
{
	const int32_t *p = o->operator->p;
	int32_t value = scaled(o, (a - p[P_ZERO_A]) * (b - p[P_ZERO_B]), p[P_MULTIPLIER_OUT], p[P_SHIFT_OUT]);

	return clamp(wrapping_add(value, p[P_ZERO_OUT]), p[P_ACT_MIN], p[P_ACT_MAX]);
}

static inline int32_t larger_of(const struct operands *o, int32_t a, int32_t b)
{
	(void)o;
	return a > b ? a : b;
}

static inline int32_t smaller_of(const struct operands *o, int32_t a, int32_t b)
{
	(void)o;
	return a < b ? a : b;
}

/* A positive value is scaled, a negative one multiplied with its slope b too. */
static inline int32_t rectified(const struct operands *o, int32_t a, int32_t b)
{
	const int32_t *p = o->operator->p;
	int32_t value = a - p[P_ZERO_A];

	value = value >= 0 ? scaled(o, value, p[P_MULTIPLIER_A], p[P_SHIFT_A])
			   : scaled(o, value * (b - p[P_ZERO_B]), p[P_MULTIPLIER_OUT], p[P_SHIFT_OUT]);
	return clamp(wrapping_add(value, p[P_ZERO_OUT]), p[P_ACT_MIN], p[P_ACT_MAX]);
}

/* Distance between neighbours of a tensor in each dimension; 0 if it is broadcast. */
static void steps_of(const struct blob_tensor *tensor, uint32_t step[4])
{
	uint32_t next = 1;

	for (int d = 3; d >= 0; d--) {
		step[d] = tensor->size[d] == 1 ? 0 : next;
		next *= tensor->size[d];
	}
}

typedef int32_t combination(const struct operands *o, int32_t a, int32_t b);

static inline __attribute__((always_inline)) void combine_all(const struct operands *o, combination *combine,
							      bool is_wide)
{
	const uint32_t *size = o->out->size;
	uint32_t step_a[4], step_b[4], at[3], place = 0;
	const void *a = o->a, *b = o->b;
	void *result = o->result;

	steps_of(o->in, step_a);
	steps_of(o->in_b, step_b);
	for (at[0] = 0; at[0] < size[0]; at[0]++) {
		for (at[1] = 0; at[1] < size[1]; at[1]++) {
			for (at[2] = 0; at[2] < size[2]; at[2]++) {
				uint32_t from_a = at[0] * step_a[0] + at[1] * step_a[1] + at[2] * step_a[2];
				uint32_t from_b = at[0] * step_b[0] + at[1] * step_b[1] + at[2] * step_b[2];

				for (uint32_t c = 0; c < size[3]; c++, place++) {
					int32_t value = combine(o, element(a, is_wide, from_a + c * step_a[3]),
								element(b, is_wide, from_b + c * step_b[3]));

					if (is_wide)
						((int16_t *)result)[place] = (int16_t)value;
					else
						((int8_t *)result)[place] = (int8_t)value;
				}
			}
		}
	}
}

/* Of int16, which few models have: one loop for all operators, to save flash. */
static __attribute__((noinline)) void combine_words(const struct operands *o, combination *combine)
{
	combine_all(o, combine, true);
}

static inline __attribute__((always_inline)) void for_each(const struct operands *o, combination *combine,
							   combination *of_words)
{
	if (o->out->type == TYPE_INT16)
		combine_words(o, of_words);
	else
		combine_all(o, combine, false);
}

#if defined(__ARM_FEATURE_MVE)

static inline int32x4_t scaled_four(int32x4_t value, const int32_t *pair)
{
	return scale_twice_four(value, vdupq_n_s32(pair[0]), vdupq_n_s32(pair[1]), false);
}

static inline int32x4_t scaled_input(int32x4_t value, int32_t zero, const int32_t *pair)
{
	return scaled_four(vshlq_n_s32(vsubq_n_s32(value, zero), ADD_LEFT_SHIFT), pair);
}

static inline int32x4_t sum_of_four(const int32_t *p, int32x4_t a, int32x4_t b)
{
	return vaddq_s32(scaled_input(a, p[P_ZERO_A], p + P_MULTIPLIER_A),
			 scaled_input(b, p[P_ZERO_B], p + P_MULTIPLIER_B));
}

static inline int32x4_t difference_of_four(const int32_t *p, int32x4_t a, int32x4_t b)
{
	return vsubq_s32(scaled_input(a, p[P_ZERO_A], p + P_MULTIPLIER_A),
			 scaled_input(b, p[P_ZERO_B], p + P_MULTIPLIER_B));
}

static inline int32x4_t product_of_four(const int32_t *p, int32x4_t a, int32x4_t b)
{
	return vmulq_s32(vsubq_n_s32(a, p[P_ZERO_A]), vsubq_n_s32(b, p[P_ZERO_B]));
}

/* Combine all elements, by four; false if a tensor is broadcast or not int8, or if values are scaled in a way
 * that no model was seen with. */
static inline __attribute__((always_inline)) bool
by_fours(const struct operands *o, int32x4_t (*combine)(const int32_t *p, int32x4_t a, int32x4_t b),
	 combination *combine_rest, bool has_input_scales)
{
	int32_t p[P_COUNT]; /* a copy, which cannot alias the output */
	const int8_t *a = o->a, *b = o->b;
	int8_t *out = o->result;
	uint32_t i = 0;

	memcpy(p, o->operator->p, sizeof p);
	if (o->out->type != TYPE_INT8 || o->in->bytes != o->out->bytes || o->in_b->bytes != o->out->bytes ||
	    o->operator->flags & FLAG_ROUND_ONCE || p[P_SHIFT_OUT] > 0 ||
	    (has_input_scales && (p[P_SHIFT_A] > 0 || p[P_SHIFT_B] > 0)))
		return false;
	for (; i + 4 <= o->out->bytes; i += 4) {
		int32x4_t value = scaled_four(combine(p, vldrbq_s32(a + i), vldrbq_s32(b + i)), p + P_MULTIPLIER_OUT);

		vstrbq_s32(out + i, clamp_four(vaddq_n_s32(value, p[P_ZERO_OUT]), p[P_ACT_MIN], p[P_ACT_MAX]));
	}
	for (; i < o->out->bytes; i++)
		out[i] = (int8_t)combine_rest(o, a[i], b[i]);
	return true;
}

#define BY_FOURS(o, combine, combine_rest, has_input_scales) by_fours(o, combine, combine_rest, has_input_scales)
#else
#define BY_FOURS(o, combine, combine_rest, has_input_scales) false
#endif

void add(const struct operands *o)
{
	if (!BY_FOURS(o, sum_of_four, sum_of, true))
		for_each(o, sum_of, sum_of_words);
}

void sub(const struct operands *o)
{
	if (!BY_FOURS(o, difference_of_four, difference_of, true))
		for_each(o, difference_of, sum_of_words);
}

void mul(const struct operands *o)
{
	if (!BY_FOURS(o, product_of_four, product_of, false))
		for_each(o, product_of, product_of);
}

void maximum(const struct operands *o) { for_each(o, larger_of, larger_of); }
void minimum(const struct operands *o) { for_each(o, smaller_of, smaller_of); }
void prelu(const struct operands *o) { for_each(o, rectified, rectified); }

void lookup(const struct operands *o)
{
	const int8_t *in = o->a, *table = (const int8_t *)o->b - INT8_MIN;
	int8_t *out = o->result;

	for (uint32_t i = 0; i < o->out->bytes; i++)
		out[i] = table[in[i]];
}

/* Halves away from zero, like TfLiteRound; values out of range are clamped before the conversion. */
int8_t quantize_value(float value, float scale, int32_t zero_point)
{
	float steps = value / scale;

	if (!(steps > -100000.0f))
		steps = -100000.0f; /* also for NaN */
	if (steps > 100000.0f)
		steps = 100000.0f;
	int32_t whole = (int32_t)steps;
	float rest = steps - (float)whole;

	whole += rest >= 0.5f ? 1 : rest <= -0.5f ? -1 : 0;
	return (int8_t)clamp(whole + zero_point, INT8_MIN, INT8_MAX);
}

void quantize(const struct operands *o)
{
	const float *in = o->a;
	int8_t *out = o->result;

	for (uint32_t i = 0; i < o->out->bytes; i++)
		out[i] = quantize_value(in[i], o->out->scale, o->out->zero_point);
}

static void requantize_words(const struct operands *o)
{
	const int32_t *p = o->operator->p;
	const int16_t *in = o->a;
	uint32_t count = o->in->bytes / 2;

	for (uint32_t i = 0; i < count; i++) {
		int32_t moved = scaled(o, in[i] - p[P_ZERO_IN], p[P_REQUANTIZE_MULTIPLIER], p[P_REQUANTIZE_SHIFT]);
		int32_t value = wrapping_add(moved, p[P_ZERO_OUT]);

		if (o->out->type == TYPE_INT8)
			((int8_t *)o->result)[i] = (int8_t)clamp(value, INT8_MIN, INT8_MAX);
		else
			((int32_t *)o->result)[i] = value;
	}
}

void requantize(const struct operands *o)
{
	const int32_t *p = o->operator->p;

	if (o->in->type == TYPE_INT16) {
		requantize_words(o);
		return;
	}
	bool from_unsigned = o->in->type == TYPE_UINT8, to_unsigned = o->out->type == TYPE_UINT8;
	const int8_t *in = o->a;
	int8_t *out = o->result;

	for (uint32_t i = 0; i < o->out->bytes; i++) {
		int32_t value = from_unsigned ? (uint8_t)in[i] : in[i];
		int32_t moved = scaled(o, value - p[P_ZERO_IN], p[P_REQUANTIZE_MULTIPLIER], p[P_REQUANTIZE_SHIFT]);
		int32_t low = to_unsigned ? 0 : INT8_MIN;

		out[i] = (int8_t)clamp(wrapping_add(moved, p[P_ZERO_OUT]), low, low + 255);
	}
}

void dequantize(const struct operands *o)
{
	const int8_t *in = o->a;
	float *out = o->result;

	for (uint32_t i = 0; i < o->in->bytes; i++) {
		int32_t value = o->in->type == TYPE_UINT8 ? (uint8_t)in[i] : in[i];

		out[i] = (float)(value - o->in->zero_point) * o->in->scale;
	}
}
