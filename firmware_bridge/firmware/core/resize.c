/* Enlarging and reducing of images. */
#include <string.h>

#include "core/fixed_point.h"
#include "core/kernels.h"

#define PLACE_BITS 10 /* after the point, in places between two pixels */

/* Two neighbouring pixels of the input in a direction, and the place between them. */
struct between {
	int32_t lower, upper, part;
};

/* Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h,
 * `ComputeInterpolationValuesInteger`. */
static struct between between_of(const int32_t *p, int32_t at, int32_t in_size, int32_t out_size)
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
	return (struct between){lower, upper, place - (lower << PLACE_BITS)};
}

void resize_bilinear(const struct operands *o)
{
	const int32_t *p = o->operator->p, one = 1 << PLACE_BITS;
	int32_t in_h = (int32_t)o->in->size[1], in_w = (int32_t)o->in->size[2], channels = (int32_t)o->in->size[3];
	int32_t out_h = (int32_t)o->out->size[1], out_w = (int32_t)o->out->size[2];
	const int8_t *image = o->a;
	int8_t *out = o->result;

	for (uint32_t n = 0; n < o->in->size[0]; n++, image += in_h * in_w * channels) {
		for (int32_t y = 0; y < out_h; y++) {
			struct between v = between_of(p, y, in_h, out_h);

			for (int32_t x = 0; x < out_w; x++) {
				struct between h = between_of(p, x, in_w, out_w);
				const int8_t *top = image + v.lower * in_w * channels;
				const int8_t *bottom = image + v.upper * in_w * channels;

				for (int32_t c = 0; c < channels; c++) {
					int64_t sum = (int64_t)top[h.lower * channels + c] * (one - v.part) * (one - h.part) +
						      (int64_t)bottom[h.lower * channels + c] * v.part * (one - h.part) +
						      (int64_t)top[h.upper * channels + c] * (one - v.part) * h.part +
						      (int64_t)bottom[h.upper * channels + c] * v.part * h.part;
					int64_t half = sum > 0 ? 1 << (2 * PLACE_BITS - 1) : -(1 << (2 * PLACE_BITS - 1));

					*out++ = (int8_t)((sum + half) / (1 << 2 * PLACE_BITS));
				}
			}
		}
	}
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
