/* SVDF: a layer that is split into features of the newest input, and weights of their last values. */
#include <string.h>

#include "core/fixed_point.h"
#include "core/kernels.h"

static int32_t newest_feature(const struct operands *o, const int8_t *in, const int8_t *weights, bool is_wide)
{
	const int32_t *p = o->operator->p;
	int32_t low = is_wide ? INT16_MIN : INT8_MIN, high = is_wide ? INT16_MAX : INT8_MAX;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < o->in->size[3]; i++)
		sum += (uint32_t)(weights[i] * (in[i] - p[P_ZERO_IN]));
	int32_t feature = scale_twice((int32_t)sum, p[P_MULTIPLIER_A], p[P_SHIFT_A]);

	/* Clamped before the zero point is added, after which an int8 wraps, as in TensorFlow Lite Micro. */
	return clamp(feature, low, high) + p[P_ZERO_STATE];
}

void svdf(const struct operands *o)
{
	const int32_t *p = o->operator->p;
	bool is_wide = o->time->type == TYPE_INT16;
	uint32_t filters = o->time->size[2], memory = o->time->size[3], rank = (uint32_t)p[P_RANK];
	uint32_t units = filters / rank, width = is_wide ? 2 : 1;
	int8_t *out = o->result;

	/* Each feature has a row of its last values, of which the oldest leaves. */
	memmove(o->state, (const int8_t *)o->state + width, o->state_tensor->bytes - width);
	for (uint32_t n = 0; n < o->in->size[2]; n++) {
		const int8_t *in = (const int8_t *)o->a + n * o->in->size[3];
		uint32_t first = n * filters * memory;

		for (uint32_t f = 0; f < filters; f++) {
			const int8_t *weights = (const int8_t *)o->b + f * o->in->size[3];
			int32_t feature = newest_feature(o, in, weights, is_wide);
			uint32_t at = first + f * memory + memory - 1;

			if (is_wide)
				((int16_t *)o->state)[at] = (int16_t)feature;
			else
				((int8_t *)o->state)[at] = (int8_t)feature;
		}
		for (uint32_t unit = 0; unit < units; unit++) {
			uint32_t sum = (uint32_t)o->bias[unit];

			for (uint32_t i = unit * rank * memory; i < (unit + 1) * rank * memory; i++)
				sum += (uint32_t)(element(o->time_weights, is_wide, i) *
						  (element(o->state, is_wide, first + i) - p[P_ZERO_STATE]));
			int32_t value = scale_twice((int32_t)sum, p[P_MULTIPLIER_OUT], p[P_SHIFT_OUT]);

			*out++ = (int8_t)clamp(wrapping_add(value, p[P_ZERO_OUT]), INT8_MIN, INT8_MAX);
		}
	}
}
