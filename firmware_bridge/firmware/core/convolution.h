/* What convolutions have in common: their geometry, and how sums become outputs. */
#ifndef CORE_CONVOLUTION_H
#define CORE_CONVOLUTION_H

#include "core/fixed_point.h"
#include "core/kernels.h"

#define ROUND_UP(value, to) (((value) + (to) - 1) / (to) * (to))

struct geometry {
	int32_t in_h, in_w, in_c, out_h, out_w, out_c, filter_h, filter_w;
	int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
	int32_t depth; /* elements of a patch */
};

static inline struct geometry geometry_of(const struct operands *o)
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

/* Parameters that convert a sum to an output. Functions with a loop copy them, as a copy cannot alias the
 * written outputs. */
struct finishing {
	const int32_t *multipliers, *shifts;
	int32_t zero_out, low, high;
	bool is_once;
	bool is_plain, can_finish_four; /* with Helium: the usual way of four channels, and whether there is any */
};

static inline struct finishing finishing_of(const struct operands *o)
{
	const int32_t *p = o->operator->p;
	struct finishing f = {o->multipliers, o->shifts, p[P_ZERO_OUT], p[P_ACT_MIN], p[P_ACT_MAX],
			      o->operator->flags & FLAG_ROUND_ONCE, false, false};

#if defined(__ARM_FEATURE_MVE)
	uint32_t channels = o->out->size[3];

	if (channels >= 4) {
		int32x4_t highest = vldrwq_s32(o->shifts + channels - 4);

		for (uint32_t i = 0; i + 4 < channels; i += 4)
			highest = vmaxq_s32(highest, vldrwq_s32(o->shifts + i));
		int32_t highest_shift = vmaxvq_s32(INT32_MIN, highest);

		f.is_plain = !f.is_once && highest_shift <= 0;
		f.can_finish_four = !f.is_once || highest_shift <= HIGH_SHIFT_MAX;
	}
#endif
	return f;
}

static inline int8_t finish(const struct finishing f, int32_t sum, int32_t channel)
{
	int32_t multiplier = f.multipliers[channel], shift = f.shifts[channel];
	int32_t value = f.is_once ? scale_once(sum, multiplier, shift) : scale_twice(sum, multiplier, shift);

	return (int8_t)clamp(wrapping_add(value, f.zero_out), f.low, f.high);
}

#if defined(__ARM_FEATURE_MVE)

/* Four outputs, each within the range of int8. */
static inline int32x4_t finish_four(const struct finishing f, int32x4_t sum, int32x4_t multiplier, int32x4_t shift)
{
	int32x4_t value = f.is_plain  ? scale_twice_four(sum, multiplier, shift, false)
			  : f.is_once ? scale_once_four(sum, multiplier, shift)
				      : scale_twice_four(sum, multiplier, shift, true);

	return clamp_four(vaddq_n_s32(value, f.zero_out), f.low, f.high);
}

#endif

#endif
