/* Depthwise convolutions: a channel of the output depends on a single channel of the input.
 *
 * Theory of operation. A patch is not gathered: there is a list with the place of each tap of the filter, and
 * a row of zero points for taps outside of the input. Adjacent channels are multiplied at a time. */
#include <string.h>

#include "core/convolution.h"

#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
#include "core/dsp.h"
#endif

uint32_t depthwise_scratch_bytes(const struct blob_tensor *in, const struct blob_tensor *weights)
{
	return weights->size[1] * weights->size[2] * 4 + ROUND_UP(in->size[3], 4);
}

/* Products of a channel of the output with all taps. */
static int32_t taps_of_one(const int8_t *base, const int32_t *taps, int32_t tap_count, const int8_t *weights,
			   int32_t zero, int32_t out_c, int32_t in_channel, int32_t start)
{
	uint32_t sum = (uint32_t)start;

	for (int32_t t = 0; t < tap_count; t++)
		sum += (uint32_t)(base[taps[t] + in_channel] * (weights[t * out_c] - zero));
	return (int32_t)sum;
}

#if defined(__ARM_FEATURE_MVE)

#define ADJACENT 8 /* channels at a time */
static inline bool can_finish(const struct finishing f) { return f.can_finish_four; }

/* VMULLB and VMULLT multiply even and odd lanes, so even and odd channels have a vector each. */
static inline void outputs_of_adjacent(const struct finishing f, const int8_t *base, const int32_t *taps, int32_t tap_count,
				       const int8_t *weights, int32_t out_c, const int32_t *bias, int32_t c, int8_t *out)
{
	int32x4x2_t sum = vld2q_s32(bias + c), multiplier = vld2q_s32(f.multipliers + c), shift = vld2q_s32(f.shifts + c);
	const int8_t *from = base + c, *weight = weights + c;

	for (int32_t t = 0; t < tap_count; t++, weight += out_c) {
		int16x8_t x = vldrbq_s16(from + taps[t]), w = vldrbq_s16(weight);

		sum.val[0] = vaddq_s32(sum.val[0], vmullbq_int_s16(x, w));
		sum.val[1] = vaddq_s32(sum.val[1], vmulltq_int_s16(x, w));
	}
	int32x4_t even = finish_four(f, sum.val[0], multiplier.val[0], shift.val[0]);
	int32x4_t odd = finish_four(f, sum.val[1], multiplier.val[1], shift.val[1]);

	vstrbq_s16(out + c, vmovntq_s32(vreinterpretq_s16_s32(even), odd));
}

#else

#define ADJACENT 4 /* channels at a time */
static inline bool can_finish(const struct finishing f) { (void)f; return true; }

/* Products of four adjacent channels. */
static inline void taps_of_four(const int8_t *base, const int32_t *taps, int32_t tap_count,
				const int8_t *weights, int32_t out_c, const int32_t *bias, int32_t sum[4])
{
#if defined(__ARM_FEATURE_DSP)
	int32_t s0 = bias[0], s1 = bias[1], s2 = bias[2], s3 = bias[3];

	for (int32_t t = 0; t < tap_count; t++, weights += out_c) {
		uint32_t x = word_at(base + taps[t]), w = word_at(weights);
		int16x2_t x_even = even_bytes(x), x_odd = odd_bytes(x);
		int16x2_t w_even = even_bytes(w), w_odd = odd_bytes(w);

		s0 = __smlabb(x_even, w_even, s0);
		s1 = __smlabb(x_odd, w_odd, s1);
		s2 = __smlatt(x_even, w_even, s2);
		s3 = __smlatt(x_odd, w_odd, s3);
	}
	sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
#else
	uint32_t s0 = (uint32_t)bias[0], s1 = (uint32_t)bias[1], s2 = (uint32_t)bias[2], s3 = (uint32_t)bias[3];

	for (int32_t t = 0; t < tap_count; t++, weights += out_c) {
		const int8_t *x = base + taps[t];

		s0 += (uint32_t)(x[0] * weights[0]);
		s1 += (uint32_t)(x[1] * weights[1]);
		s2 += (uint32_t)(x[2] * weights[2]);
		s3 += (uint32_t)(x[3] * weights[3]);
	}
	sum[0] = (int32_t)s0, sum[1] = (int32_t)s1, sum[2] = (int32_t)s2, sum[3] = (int32_t)s3;
#endif
}

static inline void outputs_of_adjacent(const struct finishing f, const int8_t *base, const int32_t *taps, int32_t tap_count,
				       const int8_t *weights, int32_t out_c, const int32_t *bias, int32_t c, int8_t *out)
{
	int32_t sum[4];

	taps_of_four(base + c, taps, tap_count, weights + c, out_c, bias + c, sum);
	for (int32_t i = 0; i < 4; i++)
		out[c + i] = finish(f, sum[i], c + i);
}

#endif

/* Distance of each tap of the filter from the first byte of `image`, for a filter at (top, left). */
static void place_taps(const struct geometry *g, const int8_t *image, int32_t top, int32_t left, int32_t *taps,
		       const int8_t *zeros)
{
	int32_t zeros_at = (int32_t)((intptr_t)zeros - (intptr_t)image);

	for (int32_t i = 0; i < g->filter_h; i++) {
		int32_t from_y = top + i * g->dilation_h;

		for (int32_t j = 0; j < g->filter_w; j++) {
			int32_t from_x = left + j * g->dilation_w;
			bool is_inside = from_y >= 0 && from_y < g->in_h && from_x >= 0 && from_x < g->in_w;

			*taps++ = is_inside ? (from_y * g->in_w + from_x) * g->in_c : zeros_at;
		}
	}
}

void depthwise(const struct operands *o)
{
	const struct geometry g = geometry_of(o);
	const struct finishing f = finishing_of(o);
	const int32_t *bias = o->bias;
	const int8_t *image = o->a, *weights = o->b;
	int32_t *taps = o->scratch, tap_count = g.filter_h * g.filter_w;
	int8_t *zeros = (int8_t *)o->scratch + 4 * tap_count, *out = o->result;
	int32_t factor = g.out_c / g.in_c, zero = o->operator->p[P_ZERO_WEIGHTS];
	int32_t highest_top = g.in_h - (g.filter_h - 1) * g.dilation_h - 1;
	int32_t highest_left = g.in_w - (g.filter_w - 1) * g.dilation_w - 1;
	int32_t adjacent_c = factor == 1 && zero == 0 && g.out_c >= ADJACENT && can_finish(f) ? g.out_c : 0;

	memset(zeros, o->operator->p[P_ZERO_IN], (size_t)g.in_c);
	for (uint32_t n = 0; n < o->in->size[0]; n++, image += g.in_h * g.in_w * g.in_c) {
		bool was_inside = false; /* the filter at the last pixel: all such have the same distances */

		for (int32_t pixel = 0; pixel < g.out_h * g.out_w; pixel++, out += g.out_c) {
			int32_t top = pixel / g.out_w * g.stride_h - g.pad_top;
			int32_t left = pixel % g.out_w * g.stride_w - g.pad_left;
			bool is_inside = top >= 0 && left >= 0 && top <= highest_top && left <= highest_left;
			const int8_t *base = is_inside ? image + (top * g.in_w + left) * g.in_c : image;

			if (!is_inside)
				place_taps(&g, image, top, left, taps, zeros);
			else if (!was_inside)
				place_taps(&g, image, 0, 0, taps, zeros);
			was_inside = is_inside;
			int32_t c = 0;

			for (; c + ADJACENT <= adjacent_c; c += ADJACENT)
				outputs_of_adjacent(f, base, taps, tap_count, weights, g.out_c, bias, c, out);
			if (c < adjacent_c) { /* some are computed twice */
				outputs_of_adjacent(f, base, taps, tap_count, weights, g.out_c, bias,
						    g.out_c - ADJACENT, out);
				c = g.out_c;
			}
			for (; c < g.out_c; c++)
				out[c] = finish(f,
						taps_of_one(base, taps, tap_count, weights + c, zero, g.out_c,
							    c / factor, bias[c]),
						c);
		}
	}
}
