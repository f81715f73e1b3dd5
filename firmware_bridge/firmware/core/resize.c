/* Enlarging and reducing of images. */
#include <string.h>

#include "core/fixed_point.h"
#include "core/kernels.h"

#define PLACE_BITS 10 /* after the point, in places between two pixels */

/* Two neighbouring pixels of the input in a direction, and the place between them. */
struct between {
	int32_t lower, upper, part;
	float real_part; /* of uint8, in place of `part` */
};

/* Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h,
 * `ComputeInterpolationValuesInteger`. */
static struct between whole_between(const int32_t *p, int32_t at, int32_t in_size, int32_t out_size)
{
	bool is_aligned = p[P_ALIGN_CORNERS] && out_size > 1;
	int32_t from = in_size - is_aligned, to = out_size - is_aligned;
	int32_t scale = ((1 << PLACE_BITS) * from + to / 2) / to;
	int32_t place = at * scale, lower, upper;

	if (p[P_HALF_PIXEL])
		place += scale / 2 - (1 << (PLACE_BITS - 1));
	lower = place / (1 << PLACE_BITS);
	upper = (place + (1 << PLACE_BITS) - 1) / (1 << PLACE_BITS);
	lower = clamp(lower, 0, in_size - 1);
	upper = upper < in_size - 1 ? upper : in_size - 1;
	return (struct between){lower, upper, place - (lower << PLACE_BITS), 0};
}

/* The same in single precision, as TFLite does it for uint8.
 * Source: `ComputeInterpolationValues` of the same file. */
static struct between real_between(const int32_t *p, int32_t at, int32_t in_size, int32_t out_size)
{
	bool is_aligned = p[P_ALIGN_CORNERS] && out_size > 1;
	float scale = (float)(in_size - is_aligned) / (float)(out_size - is_aligned);
	float place = p[P_HALF_PIXEL] ? ((float)at + 0.5f) * scale - 0.5f : (float)at * scale;
	int32_t whole = (int32_t)place, above = whole + (place > (float)whole);
	int32_t lower = place > 0 ? whole : 0; /* the floor, where it is not negative */

	return (struct between){lower < in_size ? lower : in_size - 1, above < in_size - 1 ? above : in_size - 1, 0,
				place - (float)lower};
}

/* Between four pixels, each at its place in `top` or `bottom`. */
static int8_t mixed_whole(const int8_t *top, const int8_t *bottom, int32_t left, int32_t right, struct between v,
			  struct between h)
{
	const int32_t one = 1 << PLACE_BITS;
	int64_t sum = (int64_t)top[left] * (one - v.part) * (one - h.part) +
		      (int64_t)bottom[left] * v.part * (one - h.part) +
		      (int64_t)top[right] * (one - v.part) * h.part + (int64_t)bottom[right] * v.part * h.part;
	int64_t half = sum > 0 ? 1 << (2 * PLACE_BITS - 1) : -(1 << (2 * PLACE_BITS - 1));

	return (int8_t)((sum + half) / (1 << 2 * PLACE_BITS));
}

static int8_t mixed_real(const int8_t *top, const int8_t *bottom, int32_t left, int32_t right, struct between v,
			 struct between h)
{
	float down = v.real_part, along = h.real_part;
	float sum = (float)(top[left] - INT8_MIN) * (1 - down) * (1 - along) +
		    (float)(bottom[left] - INT8_MIN) * down * (1 - along) +
		    (float)(top[right] - INT8_MIN) * (1 - down) * along + (float)(bottom[right] - INT8_MIN) * down * along;

	return (int8_t)clamp((int32_t)(sum + 0.5f) + INT8_MIN, INT8_MIN, INT8_MAX);
}

/* Inlined for either value of `is_real`. */
static inline __attribute__((always_inline)) void resize_by(const struct operands *o, bool is_real)
{
	const int32_t *p = o->operator->p;
	int32_t in_h = (int32_t)o->in->size[1], in_w = (int32_t)o->in->size[2], channels = (int32_t)o->in->size[3];
	int32_t out_h = (int32_t)o->out->size[1], out_w = (int32_t)o->out->size[2];
	const int8_t *image = o->a;
	int8_t *out = o->result;

	for (uint32_t n = 0; n < o->in->size[0]; n++, image += in_h * in_w * channels) {
		for (int32_t y = 0; y < out_h; y++) {
			struct between v = (is_real ? real_between : whole_between)(p, y, in_h, out_h);
			const int8_t *top = image + v.lower * in_w * channels;
			const int8_t *bottom = image + v.upper * in_w * channels;

			for (int32_t x = 0; x < out_w; x++) {
				struct between h = (is_real ? real_between : whole_between)(p, x, in_w, out_w);
				int32_t left = h.lower * channels, right = h.upper * channels;

				for (int32_t c = 0; c < channels; c++)
					*out++ = (is_real ? mixed_real : mixed_whole)(top, bottom, left + c, right + c, v, h);
			}
		}
	}
}

void resize_bilinear(const struct operands *o)
{
	if (o->operator->p[P_IS_UNSIGNED])
		resize_by(o, true);
	else
		resize_by(o, false);
}

void resize_nearest(const struct operands *o)
{
	uint32_t width = o->in->size[2], channels = o->in->size[3];
	const int8_t *image = o->a;
	int8_t *out = o->result;

	for (uint32_t n = 0; n < o->in->size[0]; n++, image += o->in->size[1] * width * channels) {
		for (uint32_t y = 0; y < o->out->size[1]; y++) {
			const int8_t *row = image + (uint32_t)o->rows[y] * width * channels;

			for (uint32_t x = 0; x < o->out->size[2]; x++, out += channels)
				memmove(out, row + (uint32_t)o->columns[x] * channels, channels);
		}
	}
}
