/* Layout of a model blob. docs/model-blob.md describes it; generate.py writes it; keep all three
 * in sync. All numbers are little-endian, like every machine that this firmware runs on. */
#ifndef CORE_BLOB_H
#define CORE_BLOB_H

#include <stdint.h>

#define BLOB_MAGIC 0x424d4245u /* "EBMB" */
#define BLOB_VERSION 1u
#define BLOB_NONE 0xffffffffu  /* number of an omitted tensor */
#define BLOB_SPARE 16u         /* bytes after the last tensor: kernels may read up to a word beyond it */
#define BLOB_CHECKED_FROM 16u  /* the CRC covers all bytes after it */
#define BLOB_MAX_TENSORS 1024u
#define BLOB_MAX_OPERATORS 1024u
#define BLOB_MAX_OUTPUTS 8u
#define BLOB_MAX_DIMENSION 32767u

enum blob_place { PLACE_ARENA, PLACE_BLOB };
enum blob_type { TYPE_INT8, TYPE_INT32, TYPE_FLOAT32, TYPE_UINT8, TYPE_INT16, TYPE_INT64 };
enum blob_input { INPUT_INT8, INPUT_UINT8, INPUT_FLOAT32 };
enum blob_output { OUTPUT_VALUES, OUTPUT_SQUARED_ERROR };
enum blob_rounding { ROUNDING_LITERT, ROUNDING_TFLM };

struct blob_tensor {
	uint32_t place;
	uint32_t at; /* bytes from the start of arena or blob */
	uint32_t bytes;
	uint32_t type;
	uint32_t size[4]; /* batch, height, width, channels */
	int32_t zero_point;
	float scale;
};

enum blob_kind {
	KIND_CONV = 1, /* also FULLY_CONNECTED: a convolution of 1 x 1 */
	KIND_DEPTHWISE,
	KIND_AVERAGE_POOL,
	KIND_MAX_POOL,
	KIND_ADD,
	KIND_MUL,
	KIND_COPY,
	KIND_PAD,
	KIND_SOFTMAX,
	KIND_MEAN,
	KIND_CONCAT,
	KIND_QUANTIZE,
	KIND_REQUANTIZE,
	KIND_DEQUANTIZE,
	KIND_SUB,
	KIND_MAXIMUM,
	KIND_MINIMUM,
	KIND_PRELU,
	KIND_LOOKUP,           /* any function of a single int8: input[1] is its table */
	KIND_STRIDED,          /* TRANSPOSE, STRIDED_SLICE, SPLIT */
	KIND_RESIZE_BILINEAR,
	KIND_RESIZE_NEAREST,   /* input[1], input[2]: row and column of the input for each of the output */
	KIND_TRANSPOSE_CONV,
	KIND_SVDF,             /* input[0] to [2]: activation, weights of features, bias */
	KIND_ARG_MAX,
	KIND_LOG_SOFTMAX,
	KIND_LSTM,             /* input[0] to [2]: activation, weights of it and of the hidden state, by gate */
};

/* Numbers of parameters, by operator. */
enum {
	/* CONV, DEPTHWISE, pools */
	P_STRIDE_H, P_STRIDE_W, P_PAD_TOP, P_PAD_LEFT, P_ACT_MIN, P_ACT_MAX,
	P_ZERO_OUT,
	P_DILATION_H, P_DILATION_W, P_ZERO_IN,
	P_MULTIPLIERS, P_SHIFTS, /* tensors of int32, with an item per channel of the output */
	P_FILTER_H = P_DILATION_H, P_FILTER_W = P_DILATION_W, /* pools */
	P_ZERO_WEIGHTS = P_MULTIPLIERS + 2, /* of models that were uint8 */
	/* ADD, SUB, MUL, PRELU: from P_ACT_MIN to P_ZERO_OUT as above */
	P_ZERO_A = 0, P_ZERO_B = 1,
	P_MULTIPLIER_A = 7, P_SHIFT_A, P_MULTIPLIER_B, P_SHIFT_B,
	P_MULTIPLIER_OUT, P_SHIFT_OUT,
	/* PAD: bytes before, by dimension; P_ZERO_OUT is the value */
	P_BEFORE = 0,
	/* SOFTMAX */
	P_BETA_MULTIPLIER = 0, P_BETA_SHIFT, P_DIFF_MIN,
	/* MEAN: a bit for each dimension that is summed; P_ZERO_IN, P_ZERO_OUT */
	P_AXES = 0, P_MEAN_MULTIPLIER, P_MEAN_SHIFT,
	/* CONCAT: a record per input; ARG_MAX: P_AXIS */
	P_AXIS = 0, P_OFFSET,
	/* REQUANTIZE: P_ZERO_IN, P_ZERO_OUT */
	P_REQUANTIZE_MULTIPLIER = 0, P_REQUANTIZE_SHIFT,
	/* STRIDED: number of the first element in the input, and steps to the next, by dimension */
	P_FIRST = 0, P_STEP,
	/* SVDF: P_ZERO_OUT, P_ZERO_IN, and factors of features and outputs as A and OUT above */
	P_TIME_WEIGHTS = 0, P_STATE, P_RANK, P_ZERO_STATE,
	/* RESIZE_BILINEAR */
	P_ALIGN_CORNERS = 0, P_HALF_PIXEL,
	P_IS_UNSIGNED, /* of a model that was uint8: TFLite computes it in single precision */
	/* LSTM, with P_ZERO_OUT and P_MULTIPLIER_OUT. Numbers of tensors: biases of input and hidden state;
	 * pairs of factors for input and hidden state of each gate; states; the table of logistic(i / 24),
	 * or none. Bits before the point of the cell; limit of the cell, 0 for none. */
	P_INPUT_BIAS = 0, P_RECURRENT_BIAS, P_GATE_FACTORS, P_HIDDEN, P_CELL, P_TABLE, P_CELL_BITS = 7, P_CELL_CLIP,
	P_COUNT = 16,
};

#define FLAG_ROUND_ONCE 1u
#define FLAG_HALVES_UP 4u /* average pools of models that were uint8 */
#define FLAG_RESET 2u /* runs when the state of the model is reset, not in an inference */

struct blob_operator {
	uint32_t kind;
	uint32_t flags;
	uint32_t input[3]; /* of CONV and DEPTHWISE: activation, weights, bias */
	uint32_t output;
	uint32_t scratch_at; /* in the arena */
	uint32_t scratch_bytes;
	int32_t p[P_COUNT];
};

struct blob_header {
	uint32_t magic;
	uint32_t version;
	uint32_t bytes;
	uint32_t crc32;
	uint32_t arena_bytes;
	uint32_t tensor_count;
	uint32_t operator_count;
	uint32_t tensors_at;
	uint32_t operators_at;
	uint32_t input;
	uint32_t output_count;
	uint32_t output[BLOB_MAX_OUTPUTS];
	uint32_t input_encoding;
	uint32_t output_encoding;
	uint32_t rounding;
	char id[32]; /* ends with a zero */
};

_Static_assert(sizeof(struct blob_tensor) == 40, "as generate.py packs it");
_Static_assert(sizeof(struct blob_operator) == 96, "as generate.py packs it");
_Static_assert(sizeof(struct blob_header) == 120, "as generate.py packs it");

#endif
