/* Pools, mean, places of maxima, and operators that only move bytes. */
#include <string.h>

#include "core/fixed_point.h"
#include "core/kernels.h"

struct window {
	int32_t top, bottom, left, right; /* part of the window within the input */
};

static struct window window_at(const struct operands *o, int32_t y, int32_t x)
{
	const int32_t *p = o->operator->p;
	int32_t top = y * p[P_STRIDE_H] - p[P_PAD_TOP], left = x * p[P_STRIDE_W] - p[P_PAD_LEFT];
	int32_t bottom = top + p[P_FILTER_H], right = left + p[P_FILTER_W];
	int32_t height = (int32_t)o->in->size[1], width = (int32_t)o->in->size[2];

	return (struct window){top > 0 ? top : 0, bottom < height ? bottom : height, left > 0 ? left : 0,
			       right < width ? right : width};
}

/* Sums of a window in channels that follow each other. */
static inline void sums_of_four(const int8_t *channel, struct window w, int32_t width, int32_t channels, int32_t sum[4])
{
#if defined(__ARM_FEATURE_MVE)
	int32x4_t total = vdupq_n_s32(0);
#else
	int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#endif

	for (int32_t y = w.top; y < w.bottom; y++) {
		const int8_t *pixel = channel + (y * width + w.left) * channels;

		for (int32_t x = w.left; x < w.right; x++, pixel += channels) {
#if defined(__ARM_FEATURE_MVE)
			total = vaddq_s32(total, vldrbq_s32(pixel));
#else
			s0 += pixel[0], s1 += pixel[1], s2 += pixel[2], s3 += pixel[3];
#endif
		}
	}
#if defined(__ARM_FEATURE_MVE)
	vstrwq_s32(sum, total);
#else
	sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
#endif
}

static inline int32_t sum_of(const int8_t *channel, struct window w, int32_t width, int32_t channels)
{
	int32_t sum = 0;

	for (int32_t y = w.top; y < w.bottom; y++)
		for (int32_t x = w.left; x < w.right; x++)
			sum += channel[(y * width + x) * channels];
	return sum;
}

/* How a sum becomes an average: (sum + up or down) / count + offset. */
struct averaging {
	int32_t count, up, down, offset;
};

/* Halves away from zero, or up: those of a uint8 that was made an int8 are never negative. */
static struct averaging averaging_of(int32_t count, bool is_half_up)
{
	int32_t half = count / 2, shift = -INT8_MIN * count;

	if (count <= 0)
		return (struct averaging){.count = 1};
	if (is_half_up)
		return (struct averaging){count, shift + half, shift + half, INT8_MIN};
	return (struct averaging){count, half, -half, 0};
}

static inline int32_t average_of(int32_t sum, const struct averaging a)
{
	return (sum + (sum > 0 ? a.up : a.down)) / a.count + a.offset;
}

static inline int8_t largest_of(const int8_t *channel, struct window w, int32_t width, int32_t channels)
{
	int8_t largest = INT8_MIN;

	for (int32_t y = w.top; y < w.bottom; y++) {
		for (int32_t x = w.left; x < w.right; x++) {
			int8_t value = channel[(y * width + x) * channels];

			largest = value > largest ? value : largest;
		}
	}
	return largest;
}

static void average_window(const struct operands *o, const int8_t *image, struct window w, int8_t *to)
{
	int32_t width = (int32_t)o->in->size[2], channels = (int32_t)o->in->size[3], c = 0;
	int32_t low = o->operator->p[P_ACT_MIN], high = o->operator->p[P_ACT_MAX];
	int32_t lines = w.bottom - w.top, count = lines > 0 && w.right > w.left ? lines * (w.right - w.left) : 0;
	const struct averaging a = averaging_of(count, o->operator->flags & FLAG_HALVES_UP);

	if (count > 0 && w.right - w.left == width) /* lines follow each other: a single long line */
		w = (struct window){.top = 0, .bottom = 1, .left = w.top * width, .right = w.bottom * width};
	for (; c + 3 < channels; c += 4) {
		int32_t sum[4];

		sums_of_four(image + c, w, width, channels, sum);
		for (int32_t i = 0; i < 4; i++)
			to[c + i] = (int8_t)clamp(average_of(sum[i], a), low, high);
	}
	for (; c < channels; c++)
		to[c] = (int8_t)clamp(average_of(sum_of(image + c, w, width, channels), a), low, high);
}

static void largest_in_window(const struct operands *o, const int8_t *image, struct window w, int8_t *to)
{
	int32_t width = (int32_t)o->in->size[2], channels = (int32_t)o->in->size[3];

	for (int32_t c = 0; c < channels; c++)
		to[c] = (int8_t)clamp(largest_of(image + c, w, width, channels), o->operator->p[P_ACT_MIN],
				      o->operator->p[P_ACT_MAX]);
}

static void pool(const struct operands *o,
		 void (*reduce)(const struct operands *o, const int8_t *image, struct window w, int8_t *to))
{
	const struct blob_tensor *in = o->in, *out = o->out;
	const int8_t *image = o->a;
	int8_t *to = o->result;

	for (uint32_t n = 0; n < in->size[0]; n++, image += in->size[1] * in->size[2] * in->size[3])
		for (uint32_t y = 0; y < out->size[1]; y++)
			for (uint32_t x = 0; x < out->size[2]; x++, to += in->size[3])
				reduce(o, image, window_at(o, (int32_t)y, (int32_t)x), to);
}

void average_pool(const struct operands *o) { pool(o, average_window); }
void max_pool(const struct operands *o) { pool(o, largest_in_window); }

uint32_t mean_scratch_bytes(const struct blob_tensor *out) { return out->bytes * 4; }

void mean(const struct operands *o)
{
	const struct blob_operator *op = o->operator;
	const uint32_t *size = o->in->size;
	const int8_t *value = o->a;
	int32_t *sum = o->scratch;
	int8_t *out = o->result;
	uint32_t step[4], next = 1, summed = 1, at[4];

	for (int d = 3; d >= 0; d--) {
		bool is_summed = op->p[P_AXES] >> d & 1;

		step[d] = is_summed ? 0 : next;
		next *= is_summed ? 1 : size[d];
		summed *= is_summed ? size[d] : 1;
	}
	memset(sum, 0, o->out->bytes * sizeof *sum);
	for (at[0] = 0; at[0] < size[0]; at[0]++)
		for (at[1] = 0; at[1] < size[1]; at[1]++)
			for (at[2] = 0; at[2] < size[2]; at[2]++)
				for (at[3] = 0; at[3] < size[3]; at[3]++)
					sum[at[0] * step[0] + at[1] * step[1] + at[2] * step[2] + at[3] * step[3]] +=
						*value++;
	for (uint32_t i = 0; i < o->out->bytes; i++) {
		int32_t centred = wrapping_add(sum[i], -op->p[P_ZERO_IN] * (int32_t)summed);
		int32_t multiplier = op->p[P_MEAN_MULTIPLIER], shift = op->p[P_MEAN_SHIFT];
		int32_t scaled = op->flags & FLAG_ROUND_ONCE ? scale_once(centred, multiplier, shift)
							     : scale_twice(centred, multiplier, shift);

		out[i] = (int8_t)clamp(wrapping_add(scaled, op->p[P_ZERO_OUT]), INT8_MIN, INT8_MAX);
	}
}

/* Of equal values the first is taken. */
void arg_max(const struct operands *o)
{
	int32_t axis = o->operator->p[P_AXIS];
	uint32_t count = o->in->size[axis], inner = 1, outer = 1;
	const int8_t *in = o->a;

	for (int32_t d = 0; d < 4; d++) {
		outer *= d < axis ? o->in->size[d] : 1;
		inner *= d > axis ? o->in->size[d] : 1;
	}
	for (uint32_t i = 0; i < outer * inner; i++) {
		const int8_t *value = in + i / inner * count * inner + i % inner;
		uint32_t place = 0;

		for (uint32_t j = 1; j < count; j++)
			place = value[j * inner] > value[place * inner] ? j : place;
		if (o->out->type == TYPE_INT64)
			((int64_t *)o->result)[i] = place;
		else
			((int32_t *)o->result)[i] = (int32_t)place;
	}
}

void copy(const struct operands *o) { memmove(o->result, o->a, o->out->bytes); }

void pad(const struct operands *o)
{
	const int32_t *before = o->operator->p + P_BEFORE;
	const uint32_t *size = o->in->size, *to = o->out->size;
	uint32_t width = o->in->bytes / (size[0] * size[1] * size[2] * size[3]), bytes = size[3] * width;
	const int8_t *row = o->a;

	memset(o->result, o->operator->p[P_ZERO_OUT], o->out->bytes);
	for (uint32_t n = 0; n < size[0]; n++) {
		for (uint32_t y = 0; y < size[1]; y++) {
			for (uint32_t x = 0; x < size[2]; x++, row += bytes) {
				uint32_t pixel = ((n + (uint32_t)before[0]) * to[1] + y + (uint32_t)before[1]) * to[2] +
						 x + (uint32_t)before[2];

				memmove((int8_t *)o->result + (pixel * to[3] + (uint32_t)before[3]) * width, row, bytes);
			}
		}
	}
}

void strided(const struct operands *o)
{
	const int32_t *step = o->operator->p + P_STEP;
	const uint32_t *size = o->out->size;
	uint32_t width = o->out->bytes / (size[0] * size[1] * size[2] * size[3]), row = size[3] * width;
	const uint8_t *first = (const uint8_t *)o->a + (size_t)o->operator->p[P_FIRST] * width;
	uint8_t *to = o->result;

	for (uint32_t n = 0; n < size[0]; n++) {
		for (uint32_t y = 0; y < size[1]; y++) {
			for (uint32_t x = 0; x < size[2]; x++) {
				int32_t at = (int32_t)n * step[0] + (int32_t)y * step[1] + (int32_t)x * step[2];
				const uint8_t *from = first + at * (int32_t)width;

				if (step[3] == 1) {
					memmove(to, from, row);
					to += row;
					continue;
				}
				for (uint32_t c = 0; c < size[3]; c++, from += step[3] * (int32_t)width)
					for (uint32_t i = 0; i < width; i++)
						*to++ = from[i];
			}
		}
	}
}

void concat(const struct operands *o)
{
	const int32_t *p = o->operator->p;
	uint32_t pieces = 1, run = 1, out_run;
	const int8_t *from = o->a;

	for (int32_t d = 0; d < p[P_AXIS]; d++)
		pieces *= o->in->size[d];
	for (int32_t d = p[P_AXIS] + 1; d < 4; d++)
		run *= o->in->size[d];
	out_run = run * o->out->size[p[P_AXIS]];
	for (uint32_t i = 0; i < pieces; i++) {
		uint32_t bytes = run * o->in->size[p[P_AXIS]];

		memmove((int8_t *)o->result + i * out_run + (uint32_t)p[P_OFFSET] * run, from, bytes);
		from += bytes;
	}
}
