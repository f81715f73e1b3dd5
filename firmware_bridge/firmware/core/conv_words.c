/* Convolutions of int16 with weights of int8. Their sums have 64 bits, and no zero points. */
#include "core/fixed_point.h"
#include "core/kernels.h"

/* Source: tensorflow/lite/kernels/internal/common.cc, `MultiplyByQuantizedMultiplier` of int64. */
static int16_t finish_word(const struct operands *o, uint64_t sum, uint32_t channel)
{
	const int32_t *p = o->operator->p;
	int32_t multiplier = o->multipliers[channel], bits = 15 - o->shifts[channel];
	int32_t reduced = multiplier < 0x7fff0000 ? (multiplier + (1 << 15)) >> 16 : 0x7fff;
	int64_t value = (int64_t)(sum * (uint64_t)reduced + ((uint64_t)1 << (bits - 1))) >> bits;

	return (int16_t)clamp((int32_t)value, p[P_ACT_MIN], p[P_ACT_MAX]);
}

/* Place in the input that a tap of the filter reads for an output; -1: none. */
static int32_t place_of(bool is_transposed, int32_t at, int32_t tap, int32_t stride, int32_t padding,
			int32_t dilation, int32_t size)
{
	int32_t place = is_transposed ? at + padding - tap : at * stride - padding + tap * dilation;

	if (place < 0 || (is_transposed && place % stride != 0))
		return -1;
	place /= is_transposed ? stride : 1;
	return place < size ? place : -1;
}

static uint64_t sum_at(const struct operands *o, bool is_transposed, const int16_t *image, int32_t pixel,
		       uint32_t channel)
{
	const struct blob_tensor *in = o->in, *w = o->in_b;
	const int32_t *p = o->operator->p;
	int32_t width = (int32_t)o->out->size[2], depth = (int32_t)in->size[3], filter_w = (int32_t)w->size[2];
	int32_t taps = (int32_t)w->size[1] * filter_w;
	const int8_t *tap = (const int8_t *)o->b + channel * (uint32_t)(taps * depth);
	uint64_t sum = (uint64_t)o->wide_bias[channel];

	for (int32_t i = 0; i < taps; i++, tap += depth) {
		int32_t y = place_of(is_transposed, pixel / width, i / filter_w, p[P_STRIDE_H], p[P_PAD_TOP],
				     p[P_DILATION_H], (int32_t)in->size[1]);
		int32_t x = place_of(is_transposed, pixel % width, i % filter_w, p[P_STRIDE_W], p[P_PAD_LEFT],
				     p[P_DILATION_W], (int32_t)in->size[2]);

		if (y < 0 || x < 0)
			continue;
		const int16_t *from = image + (y * (int32_t)in->size[2] + x) * depth;

		for (int32_t c = 0; c < depth; c++)
			sum += (uint64_t)(int64_t)(from[c] * tap[c]);
	}
	return sum;
}

void convolve_words(const struct operands *o, bool is_transposed)
{
	uint32_t pixels = o->out->size[1] * o->out->size[2], channels = o->out->size[3];
	uint32_t image_elements = o->in->size[1] * o->in->size[2] * o->in->size[3];
	const int16_t *image = o->a;
	int16_t *out = o->result;

	for (uint32_t n = 0; n < o->in->size[0]; n++, image += image_elements)
		for (uint32_t pixel = 0; pixel < pixels; pixel++)
			for (uint32_t c = 0; c < channels; c++)
				*out++ = finish_word(o, sum_at(o, is_transposed, image, (int32_t)pixel, c), c);
}
