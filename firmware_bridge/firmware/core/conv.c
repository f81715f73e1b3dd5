/* Convolutions, which take nearly all of the time of a model.
 *
 * Theory of operation. The patch under the filter is gathered into a row, with the input's zero
 * point outside of the image; the generator has folded the zero point into the bias. So each output
 * is a plain product of two rows of int8. Two patches are multiplied at a time with two channels, or
 * with four in the lanes of a vector, so that loaded values are used more than once.
 *
 * With DSP instructions a patch is widened to int16 when it is gathered, as pairs of elements (0, 2)
 * and (1, 3), which is how SXTB16 takes weights apart. */
#include <string.h>

#include "core/convolution.h"
#include "core/products.h"

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

/* How patches become outputs. Functions with a loop copy it, as `finishing`. */
struct multiplication {
	struct finishing finishing;
	const int32_t *bias;
	const int8_t *weights;
	int32_t depth, channels;
};

/* The channels from `channel` on of an output pixel, one at a time, and of the next one unless `b` is NULL. */
static inline void multiply_rest(const struct multiplication m, int32_t channel, const patch_type *a, const patch_type *b,
				 int8_t *out)
{
	for (; channel < m.channels; channel++) {
		const int8_t *row = m.weights + channel * m.depth;

		out[channel] = finish(m.finishing, products(a, row, m.depth, m.bias[channel]), channel);
		if (b)
			out[m.channels + channel] =
				finish(m.finishing, products(b, row, m.depth, m.bias[channel]), channel);
	}
}

#if defined(__ARM_FEATURE_MVE)

/* All channels of an output pixel, and of the next one unless `b` is NULL. */
static __attribute__((noinline)) void multiply(const struct multiplication *multiplication, const patch_type *a,
					       const patch_type *b, int8_t *out)
{
	const struct multiplication m = *multiplication;
	const struct finishing f = m.finishing;
	int32_t channel = 0;

	for (; f.can_finish_four && channel < m.channels; channel += 4) {
		channel = channel + 4 > m.channels ? m.channels - 4 : channel; /* some are computed twice */
		const int8_t *rows = m.weights + channel * m.depth;
		int32x4_t start = vldrwq_s32(m.bias + channel);
		int32x4_t multiplier = vldrwq_s32(f.multipliers + channel), shift = vldrwq_s32(f.shifts + channel);

		vstrbq_s32(out + channel, finish_four(f, products_1x4(a, rows, m.depth, start), multiplier, shift));
		if (b)
			vstrbq_s32(out + m.channels + channel,
				   finish_four(f, products_1x4(b, rows, m.depth, start), multiplier, shift));
	}
	multiply_rest(m, channel, a, b, out);
}

#else

/* Separate functions, because there are too few registers for two loops. */
static __attribute__((noinline)) void multiply_one(const struct multiplication *multiplication, const patch_type *patch,
						   int8_t *out)
{
	const struct multiplication m = *multiplication;
	int32_t channel = 0;

	for (; channel + 1 < m.channels; channel += 2) {
		int32_t sum[2] = {m.bias[channel], m.bias[channel + 1]};

		products_1x2(patch, m.weights + channel * m.depth, m.depth, sum);
		out[channel] = finish(m.finishing, sum[0], channel);
		out[channel + 1] = finish(m.finishing, sum[1], channel + 1);
	}
	multiply_rest(m, channel, patch, NULL, out);
}

static __attribute__((noinline)) void multiply_two(const struct multiplication *multiplication, const patch_type *a,
						   const patch_type *b, int8_t *out)
{
	const struct multiplication m = *multiplication;
	int32_t channel = 0;

	for (; channel + 1 < m.channels; channel += 2) {
		const int8_t *row = m.weights + channel * m.depth;
		int32_t sum[4] = {m.bias[channel], m.bias[channel + 1], m.bias[channel], m.bias[channel + 1]};

		products_2x2(a, b, row, row + m.depth, m.depth, sum);
		out[channel] = finish(m.finishing, sum[0], channel);
		out[channel + 1] = finish(m.finishing, sum[1], channel + 1);
		out[m.channels + channel] = finish(m.finishing, sum[2], channel);
		out[m.channels + channel + 1] = finish(m.finishing, sum[3], channel + 1);
	}
	multiply_rest(m, channel, a, b, out);
}

/* All channels of an output pixel, and of the next one unless `b` is NULL. */
static void multiply(const struct multiplication *m, const patch_type *a, const patch_type *b, int8_t *out)
{
	if (b)
		multiply_two(m, a, b, out);
	else
		multiply_one(m, a, out);
}

#endif

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
	const struct multiplication m = {finishing_of(o), o->bias, o->b, g.depth, g.out_c};
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
					multiply(&m, patch[0], patch[1], out);
					out += 2 * g.out_c;
					waiting = 0;
				}
			}
		}
		if (waiting) {
			multiply(&m, patch[0], NULL, out);
			out += g.out_c;
		}
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

