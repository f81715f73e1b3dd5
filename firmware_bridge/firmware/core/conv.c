/* Convolutions, which take nearly all of the time of a model.
 *
 * Theory of operation. The patch under the filter is gathered into a row, with the input's zero
 * point outside of the image; the generator has folded the zero point into the bias. So each output
 * is a plain product of two rows of int8. Two patches and two channels are multiplied at a time, so
 * that loaded values are used twice. A depthwise convolution does not gather: it has a list with the
 * place of each tap of the filter, and a row of zero points for taps outside.
 *
 * With DSP instructions a patch is widened to int16 when it is gathered, as pairs of elements (0, 2)
 * and (1, 3), which is how SXTB16 takes weights apart. */
#include <string.h>

#include "core/fixed_point.h"
#include "core/kernels.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
typedef int8_t patch_type;
#define PATCH_ELEMENTS(depth) (depth)
#elif defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
typedef int16_t patch_type;
#define PATCH_ELEMENTS(depth) ROUND_UP(depth, 4) /* zeros at its end */
#else
typedef int8_t patch_type;
#define PATCH_ELEMENTS(depth) (depth)
#endif

#define ROUND_UP(value, to) (((value) + (to) - 1) / (to) * (to))

struct geometry {
	int32_t in_h, in_w, in_c, out_h, out_w, out_c, filter_h, filter_w;
	int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
	int32_t depth; /* elements of a patch */
};

static struct geometry geometry_of(const struct operands *o)
{
	const struct blob_tensor *in = o->in, *w = o->in_b, *out = o->out;
	const int32_t *p = o->operator->p;
	struct geometry g = {
		.in_h = (int32_t)in->size[1], .in_w = (int32_t)in->size[2], .in_c = (int32_t)in->size[3],
		.out_h = (int32_t)out->size[1], .out_w = (int32_t)out->size[2], .out_c = (int32_t)out->size[3],
		.filter_h = (int32_t)w->size[1], .filter_w = (int32_t)w->size[2],
		.stride_h = p[P_STRIDE_H], .stride_w = p[P_STRIDE_W],
		.dilation_h = p[P_DILATION_H], .dilation_w = p[P_DILATION_W],
		.pad_top = p[P_PAD_TOP], .pad_left = p[P_PAD_LEFT],
	};
	g.depth = g.filter_h * g.filter_w * g.in_c;
	return g;
}

/* Parameters that convert a sum to an output; a copy, which cannot alias the written outputs. */
struct finishing {
	const int32_t *multipliers, *shifts;
	int32_t zero_out, low, high;
	bool is_once;
};

static inline struct finishing finishing_of(const struct operands *o)
{
	const int32_t *p = o->operator->p;

	return (struct finishing){o->multipliers, o->shifts, p[P_ZERO_OUT], p[P_ACT_MIN], p[P_ACT_MAX],
				  o->operator->flags & FLAG_ROUND_ONCE};
}

static inline int8_t finish(const struct finishing f, int32_t sum, int32_t channel)
{
	int32_t multiplier = f.multipliers[channel], shift = f.shifts[channel];
	int32_t value = f.is_once ? scale_once(sum, multiplier, shift) : scale_twice(sum, multiplier, shift);

	return (int8_t)clamp(wrapping_add(value, f.zero_out), f.low, f.high);
}

uint32_t conv_scratch_bytes(const struct blob_tensor *in, const struct blob_tensor *weights,
			    const struct blob_tensor *out)
{
	uint32_t depth = weights->size[1] * weights->size[2] * in->size[3];
	uint32_t rows = out->size[0] * out->size[1] * out->size[2];

	/* int8 patches for gathering, int16 patches for multiplication. */
	return (rows > 1 ? 2 : 1) * ROUND_UP(depth, 4) * 2 + ROUND_UP(depth, 4);
}

/* The patch under the filter as a row of int8; if it is contiguous already, without a copy. */
static const int8_t *gather(const struct operands *o, const struct geometry *g, const int8_t *image,
			    int32_t y, int32_t x, int8_t *row)
{
	int32_t top = y * g->stride_h - g->pad_top, left = x * g->stride_w - g->pad_left;
	int32_t zero = o->operator->p[P_ZERO_IN];
	bool is_one = g->filter_h == 1 && g->filter_w == 1;
	int8_t *to = row;

	if (is_one && top >= 0 && top < g->in_h && left >= 0 && left < g->in_w)
		return image + (top * g->in_w + left) * g->in_c;
	for (int32_t i = 0; i < g->filter_h; i++) {
		int32_t from_y = top + i * g->dilation_h;
		bool is_inside = from_y >= 0 && from_y < g->in_h;
		const int8_t *line = image + (is_inside ? from_y * g->in_w * g->in_c : 0);

		if (is_inside && g->dilation_w == 1 && left >= 0 && left + g->filter_w <= g->in_w) {
			memmove(to, line + left * g->in_c, (size_t)(g->filter_w * g->in_c));
			to += g->filter_w * g->in_c;
			continue;
		}
		for (int32_t j = 0; j < g->filter_w; j++) {
			int32_t from_x = left + j * g->dilation_w;

			if (is_inside && from_x >= 0 && from_x < g->in_w)
				memmove(to, line + from_x * g->in_c, (size_t)g->in_c);
			else
				memset(to, zero, (size_t)g->in_c);
			to += g->in_c;
		}
	}
	return row;
}

/* Separate functions, because there are too few registers for two loops. */
#if defined(__ARM_FEATURE_MVE)

static inline void products_2x2(const int8_t *a, const int8_t *b, const int8_t *u, const int8_t *v,
				int32_t depth, int32_t sum[4])
{
	for (; depth > 0; depth -= 16) {
		mve_pred16_t lanes = vctp8q((uint32_t)depth);
		int8x16_t va = vldrbq_z_s8(a, lanes), vb = vldrbq_z_s8(b, lanes);
		int8x16_t vu = vldrbq_z_s8(u, lanes), vv = vldrbq_z_s8(v, lanes);

		sum[0] = vmladavaq_s8(sum[0], va, vu);
		sum[1] = vmladavaq_s8(sum[1], va, vv);
		sum[2] = vmladavaq_s8(sum[2], vb, vu);
		sum[3] = vmladavaq_s8(sum[3], vb, vv);
		a += 16, b += 16, u += 16, v += 16;
	}
}

static inline int32_t products(const int8_t *a, const int8_t *u, int32_t depth, int32_t sum)
{
	for (; depth > 0; depth -= 16) {
		mve_pred16_t lanes = vctp8q((uint32_t)depth);

		sum = vmladavaq_s8(sum, vldrbq_z_s8(a, lanes), vldrbq_z_s8(u, lanes));
		a += 16, u += 16;
	}
	return sum;
}

#elif defined(__ARM_FEATURE_DSP)

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

static inline int32_t products(const int8_t *a, const int8_t *u, int32_t depth, int32_t start)
{
	uint32_t sum = (uint32_t)start;

#pragma GCC unroll 4
	for (int32_t i = 0; i < depth; i++)
		sum += (uint32_t)(a[i] * u[i]);
	return (int32_t)sum;
}

#endif

/* The patch of an output in the format of the products; `slot` selects one of two buffers. */
static const patch_type *patch_at(const struct operands *o, const struct geometry *g,
				  const int8_t *image, int32_t y, int32_t x, int32_t slot)
{
	int8_t *scratch = o->scratch;
	int32_t row_bytes = ROUND_UP(g->depth, 4);
#if !defined(__ARM_FEATURE_MVE) && defined(__ARM_FEATURE_DSP)
	const int8_t *row = gather(o, g, image, y, x, scratch);
	return widened(row, g->depth, (int16_t *)(void *)(scratch + row_bytes + slot * 2 * row_bytes));
#else
	return gather(o, g, image, y, x, scratch + slot * row_bytes);
#endif
}

static __attribute__((noinline)) void multiply_two(const struct operands *o, const struct geometry *g, const patch_type *const patch[2],
			 int8_t *out)
{
	const struct finishing f = finishing_of(o);
	const patch_type *a = patch[0], *b = patch[1];
	const int32_t *bias = o->bias, depth = g->depth, channels = g->out_c;
	const int8_t *weights = o->b;
	int32_t channel = 0;

	for (; channel + 1 < channels; channel += 2) {
		const int8_t *row = weights + channel * depth;
		int32_t sum[4] = {bias[channel], bias[channel + 1], bias[channel], bias[channel + 1]};

		products_2x2(a, b, row, row + depth, depth, sum);
		out[channel] = finish(f, sum[0], channel);
		out[channel + 1] = finish(f, sum[1], channel + 1);
		out[channels + channel] = finish(f, sum[2], channel);
		out[channels + channel + 1] = finish(f, sum[3], channel + 1);
	}
	for (; channel < channels; channel++) {
		const int8_t *row = weights + channel * depth;

		out[channel] = finish(f, products(a, row, depth, bias[channel]), channel);
		out[channels + channel] = finish(f, products(b, row, depth, bias[channel]), channel);
	}
}

/* Weights with a zero point: its product with the sum of the patch is taken off each sum. */
static void multiply_shifted(const struct operands *o, const struct geometry *g, const patch_type *patch, int8_t *out)
{
	const struct finishing f = finishing_of(o);
	int32_t zero = o->operator->p[P_ZERO_WEIGHTS], total = 0;

	for (int32_t i = 0; i < PATCH_ELEMENTS(g->depth); i++)
		total += patch[i];
	for (int32_t channel = 0; channel < g->out_c; channel++) {
		int32_t start = (int32_t)((uint32_t)o->bias[channel] - (uint32_t)zero * (uint32_t)total);

		out[channel] = finish(f, products(patch, (const int8_t *)o->b + channel * g->depth, g->depth, start),
				      channel);
	}
}

void conv(const struct operands *o)
{
	if (o->in->type == TYPE_INT16) {
		convolve_words(o, false);
		return;
	}
	const struct geometry g = geometry_of(o);
	const struct finishing f = finishing_of(o);
	bool is_shifted = o->operator->p[P_ZERO_WEIGHTS] != 0;
	const int8_t *image = o->a;
	int8_t *out = o->result;
	const patch_type *patch[2];

	for (uint32_t n = 0; n < o->in->size[0]; n++, image += g.in_h * g.in_w * g.in_c) {
		int32_t waiting = 0;

		for (int32_t y = 0; y < g.out_h; y++) {
			for (int32_t x = 0; x < g.out_w; x++) {
				patch[waiting] = patch_at(o, &g, image, y, x, waiting);
				if (is_shifted) {
					multiply_shifted(o, &g, patch[0], out);
					out += g.out_c;
				} else if (++waiting == 2) {
					multiply_two(o, &g, patch, out);
					out += 2 * g.out_c;
					waiting = 0;
				}
			}
		}
		for (int32_t channel = 0; waiting && channel < g.out_c; channel++)
			*out++ = finish(f,
					products(patch[0], (const int8_t *)o->b + channel * g.depth,
						 g.depth, o->bias[channel]),
					channel);
	}
}

/* Each output gathers the taps that reach it. Taps outside of the input add nothing, so its zero point
 * cannot be folded into the bias. */
void transpose_conv(const struct operands *o)
{
	if (o->in->type == TYPE_INT16) {
		convolve_words(o, true);
		return;
	}
	const struct geometry g = geometry_of(o);
	const struct finishing f = finishing_of(o);
	const int8_t *image = o->a, *weights = o->b;
	int32_t zero = o->operator->p[P_ZERO_IN], zero_weights = o->operator->p[P_ZERO_WEIGHTS];
	int8_t *out = o->result;

	for (uint32_t n = 0; n < o->in->size[0]; n++, image += g.in_h * g.in_w * g.in_c) {
		for (int32_t pixel = 0; pixel < g.out_h * g.out_w; pixel++) {
			for (int32_t channel = 0; channel < g.out_c; channel++) {
				const int8_t *tap = weights + channel * g.depth;
				uint32_t sum = (uint32_t)o->bias[channel];

				for (int32_t i = 0; i < g.filter_h * g.filter_w; i++, tap += g.in_c) {
					int32_t y = pixel / g.out_w + g.pad_top - i / g.filter_w;
					int32_t x = pixel % g.out_w + g.pad_left - i % g.filter_w;

					if (y < 0 || y % g.stride_h || y / g.stride_h >= g.in_h || x < 0 ||
					    x % g.stride_w || x / g.stride_w >= g.in_w)
						continue;
					const int8_t *from = image + (y / g.stride_h * g.in_w + x / g.stride_w) * g.in_c;

					for (int32_t c = 0; c < g.in_c; c++)
						sum += (uint32_t)((from[c] - zero) * (tap[c] - zero_weights));
				}
				*out++ = finish(f, (int32_t)sum, channel);
			}
		}
	}
}

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

/* Products of four adjacent channels. */
static inline void taps_of_four(const int8_t *base, const int32_t *taps, int32_t tap_count,
				const int8_t *weights, int32_t out_c, const int32_t *bias, int32_t sum[4])
{
#if defined(__ARM_FEATURE_MVE)
	int32x4_t total = vldrwq_s32(bias);

	for (int32_t t = 0; t < tap_count; t++, weights += out_c)
		total = vaddq_s32(total, vmulq_s32(vldrbq_s32(base + taps[t]), vldrbq_s32(weights)));
	vstrwq_s32(sum, total);
#elif defined(__ARM_FEATURE_DSP)
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

/* Place of each tap of the filter, relative to the first byte of scratch memory. */
static void place_taps(const struct operands *o, const struct geometry *g, const int8_t *image, int32_t y,
		       int32_t x, int32_t *taps, const int8_t *zeros)
{
	int32_t top = y * g->stride_h - g->pad_top, left = x * g->stride_w - g->pad_left;
	int32_t zeros_at = (int32_t)(zeros - (const int8_t *)o->scratch);
	int32_t image_at = (int32_t)((intptr_t)image - (intptr_t)o->scratch);

	for (int32_t i = 0; i < g->filter_h; i++) {
		int32_t from_y = top + i * g->dilation_h;

		for (int32_t j = 0; j < g->filter_w; j++) {
			int32_t from_x = left + j * g->dilation_w;
			bool is_inside = from_y >= 0 && from_y < g->in_h && from_x >= 0 && from_x < g->in_w;

			*taps++ = is_inside ? image_at + (from_y * g->in_w + from_x) * g->in_c : zeros_at;
		}
	}
}

void depthwise(const struct operands *o)
{
	const struct geometry g = geometry_of(o);
	const struct finishing f = finishing_of(o);
	const int32_t *bias = o->bias;
	const int8_t *image = o->a, *weights = o->b, *base = o->scratch;
	int32_t *taps = o->scratch, tap_count = g.filter_h * g.filter_w;
	int8_t *zeros = (int8_t *)o->scratch + 4 * tap_count, *out = o->result;
	int32_t factor = g.out_c / g.in_c;
	int32_t zero = o->operator->p[P_ZERO_WEIGHTS];
	int32_t fours = factor == 1 && zero == 0 ? g.out_c & ~3 : 0;

	memset(zeros, o->operator->p[P_ZERO_IN], (size_t)g.in_c);
	for (uint32_t n = 0; n < o->in->size[0]; n++, image += g.in_h * g.in_w * g.in_c) {
		for (int32_t pixel = 0; pixel < g.out_h * g.out_w; pixel++, out += g.out_c) {
			place_taps(o, &g, image, pixel / g.out_w, pixel % g.out_w, taps, zeros);
			for (int32_t c = 0; c < fours; c += 4) {
				int32_t sum[4];

				taps_of_four(base + c, taps, tap_count, weights + c, g.out_c, bias + c,
					     sum);
				for (int32_t i = 0; i < 4; i++)
					out[c + i] = finish(f, sum[i], c + i);
			}
			for (int32_t c = fours; c < g.out_c; c++)
				out[c] = finish(f,
						taps_of_one(base, taps, tap_count, weights + c, zero, g.out_c,
							    c / factor, bias[c]),
						c);
		}
	}
}
