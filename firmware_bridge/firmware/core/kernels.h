/* Operators on tensors of int8 and int16, with exactly the same results as TFLite's reference kernels.
 *
 * The tensors of a kernel were checked by model.c: all of their bytes are in blob or arena. */
#ifndef CORE_KERNELS_H
#define CORE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/blob.h"

#if defined(__ARM_FEATURE_MVE)
#define KERNELS_NAME "mve"
#elif defined(__ARM_FEATURE_DSP)
#define KERNELS_NAME "dsp"
#else
#define KERNELS_NAME "portable"
#endif

struct operands {
	const struct blob_operator *operator;
	const struct blob_tensor *in, *in_b, *out;
	const void *a; /* first input */
	const void *b; /* second input, or weights */
	const int32_t *bias, *multipliers, *shifts;
	const int64_t *wide_bias; /* of convolutions of int16 */
	const int32_t *rows, *columns; /* of RESIZE_NEAREST */
	const struct blob_tensor *time, *state_tensor; /* of SVDF; the state of LSTM, too */
	const void *time_weights;
	/* of LSTM */
	const struct blob_tensor *cell_tensor, *recurrent;
	void *cell;
	const int8_t *recurrent_weights;
	const int32_t *recurrent_bias, *gate_factors;
	const uint16_t *table; /* of TensorFlow Lite Micro */
	void *state;
	void *result;
	void *scratch;
};

/* Bytes of scratch memory that a kernel needs: the same for all kinds of kernels, so that a blob
 * runs on every board. */
uint32_t conv_scratch_bytes(const struct blob_tensor *in, const struct blob_tensor *weights,
			    const struct blob_tensor *out);
uint32_t depthwise_scratch_bytes(const struct blob_tensor *in, const struct blob_tensor *weights);
uint32_t mean_scratch_bytes(const struct blob_tensor *out);
uint32_t lstm_scratch_bytes(const struct blob_tensor *out);

#define LSTM_TABLE_ITEMS 256
#define LSTM_FACTORS 16

void conv(const struct operands *o);
void depthwise(const struct operands *o);
void average_pool(const struct operands *o);
void max_pool(const struct operands *o);
void add(const struct operands *o);
void mul(const struct operands *o);
void copy(const struct operands *o);
void pad(const struct operands *o);
void softmax(const struct operands *o);
void mean(const struct operands *o);
void concat(const struct operands *o);
void quantize(const struct operands *o);
void requantize(const struct operands *o);
void dequantize(const struct operands *o);
void sub(const struct operands *o);
void maximum(const struct operands *o);
void minimum(const struct operands *o);
void prelu(const struct operands *o);
void lookup(const struct operands *o);
void strided(const struct operands *o);
void resize_bilinear(const struct operands *o);
void resize_nearest(const struct operands *o);
void transpose_conv(const struct operands *o);
void svdf(const struct operands *o);
void arg_max(const struct operands *o);
void log_softmax(const struct operands *o);
void lstm(const struct operands *o);

/* CONV and TRANSPOSE_CONV of int16. */
void convolve_words(const struct operands *o, bool is_transposed);

/* Of int16, or of int8. */
static inline int32_t element(const void *data, bool is_wide, uint32_t index)
{
	return is_wide ? ((const int16_t *)data)[index] : ((const int8_t *)data)[index];
}

/* The sum of `start` and the products of two rows. */
static inline int32_t row_products(const int8_t *a, const int8_t *b, uint32_t count, int32_t start)
{
	uint32_t sum = (uint32_t)start;

#pragma GCC unroll 4
	for (uint32_t i = 0; i < count; i++)
		sum += (uint32_t)(a[i] * b[i]);
	return (int32_t)sum;
}

int8_t quantize_value(float value, float scale, int32_t zero_point);

#endif
