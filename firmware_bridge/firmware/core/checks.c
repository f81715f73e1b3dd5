/* Checks of tensors and operators: what kernels rely on. */
#include "core/checks.h"

static const uint32_t TYPE_BYTES[] = {[TYPE_INT8] = 1, [TYPE_INT32] = 4, [TYPE_FLOAT32] = 4, [TYPE_UINT8] = 1,
				      [TYPE_INT16] = 2, [TYPE_INT64] = 8};

static bool is_between(int32_t value, int32_t low, int32_t high) { return value >= low && value <= high; }

bool is_tensor_good(const struct model *model, const struct blob_tensor *tensor)
{
	uint64_t bytes;
	/* Kernels may read up to a word beyond a tensor; their scratch memory is after the arena. */
	uint32_t total = tensor->place == PLACE_BLOB ? model->header->bytes - BLOB_SPARE
						     : model->header->arena_bytes - BLOB_SPARE;

	if (tensor->place > PLACE_BLOB || tensor->type > TYPE_INT64)
		return false;
	bytes = TYPE_BYTES[tensor->type];
	for (int d = 0; d < 4; d++) {
		if (tensor->size[d] < 1 || tensor->size[d] > BLOB_MAX_DIMENSION)
			return false;
		bytes *= tensor->size[d];
		if (bytes > UINT32_MAX)
			return false;
	}
	return bytes == tensor->bytes && tensor->at % TYPE_BYTES[tensor->type] == 0 &&
	       is_within(tensor->at, tensor->bytes, total) && is_between(tensor->zero_point, INT16_MIN, 255);
}

static bool is_activation(const struct blob_tensor *tensor)
{
	return tensor && tensor->type == TYPE_INT8;
}

static bool is_of_words(const struct blob_tensor *tensor) { return tensor && tensor->type == TYPE_INT16; }

static bool are_scales_good(const int32_t *multipliers, const int32_t *shifts, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (multipliers[i] < 0 || !is_between(shifts[i], -31, 30))
			return false;
	return true;
}

static bool is_scale_pair(const int32_t *p) { return are_scales_good(p, p + 1, 1); }

static bool is_activation_range(const int32_t *p, const struct blob_tensor *out)
{
	int32_t low = out->type == TYPE_INT16 ? INT16_MIN : INT8_MIN;

	return is_between(p[P_ACT_MIN], low, -low - 1) && is_between(p[P_ACT_MAX], p[P_ACT_MIN], -low - 1);
}

static bool is_window_good(const int32_t *p, const struct blob_tensor *out)
{
	return is_between(p[P_STRIDE_H], 1, 255) && is_between(p[P_STRIDE_W], 1, 255) &&
	       is_between(p[P_PAD_TOP], 0, 255) && is_between(p[P_PAD_LEFT], 0, 255) && is_activation_range(p, out);
}

static bool is_scratch_good(const struct model *model, const struct blob_operator *op, uint32_t needed)
{
	const struct blob_tensor *out = tensor_at(model, op->output);

	/* The list of places in scratch memory must not change while outputs are written. */
	return op->scratch_at % 4 == 0 && needed <= op->scratch_bytes &&
	       is_within(op->scratch_at, op->scratch_bytes, model->header->arena_bytes) &&
	       (op->scratch_at + op->scratch_bytes <= out->at || out->at + out->bytes <= op->scratch_at);
}

/* Tensors of int8, or all of int16; the last may be left out. */
static bool are_alike(const struct blob_tensor *a, const struct blob_tensor *b, const struct blob_tensor *c)
{
	return (is_activation(a) && is_activation(b) && (!c || is_activation(c))) ||
	       (is_of_words(a) && is_of_words(b) && (!c || is_of_words(c)));
}

static bool is_conv_of_words_good(const struct operands *o)
{
	const int32_t *p = o->operator->p;

	for (uint32_t i = 0; i < o->out->size[3]; i++)
		if (o->shifts[i] > 7) /* the limit of `MultiplyByQuantizedMultiplier` of int64 */
			return false;
	return o->wide_bias && p[P_ZERO_IN] == 0 && p[P_ZERO_OUT] == 0 && p[P_ZERO_WEIGHTS] == 0;
}

static bool is_conv_good(const struct model *model, const struct operands *o)
{
	const struct blob_operator *op = o->operator;
	const struct blob_tensor *in = o->in, *w = o->in_b, *out = o->out;
	bool is_depthwise = op->kind == KIND_DEPTHWISE;
	const int32_t *p = op->p;

	if (!are_alike(in, out, NULL) || !is_activation(w) || w->place != PLACE_BLOB || !o->multipliers || !o->shifts)
		return false;
	if (is_of_words(in) ? is_depthwise || !is_conv_of_words_good(o) : !o->bias)
		return false;
	if (in->size[0] != out->size[0] || !is_window_good(p, out) || !is_between(p[P_ZERO_IN], -128, 127) ||
	    !is_between(p[P_ZERO_OUT], -128, 127) || !is_between(p[P_ZERO_WEIGHTS], -128, 127) ||
	    (p[P_ZERO_WEIGHTS] != 0 && w->bytes > 1u << 23) || !is_between(p[P_DILATION_H], 1, 255) ||
	    !is_between(p[P_DILATION_W], 1, 255) ||
	    !are_scales_good(o->multipliers, o->shifts, out->size[3]))
		return false;
	if (is_depthwise) /* its zero points are in scratch memory, at a distance of int32 from the input */
		return in->place == PLACE_ARENA && w->size[0] == 1 && w->size[3] == out->size[3] &&
		       out->size[3] % in->size[3] == 0 && w->size[1] <= 255 && w->size[2] <= 255 &&
		       is_scratch_good(model, op, depthwise_scratch_bytes(in, w));
	return w->size[0] == out->size[3] && w->size[3] == in->size[3] &&
	       (op->kind == KIND_TRANSPOSE_CONV || is_of_words(in) || is_scratch_good(model, op, conv_scratch_bytes(in, w, out)));
}

static bool is_broadcast_good(const struct operands *o)
{
	if (!o->in_b || !are_alike(o->in, o->in_b, o->out))
		return false;
	for (int d = 0; d < 4; d++) {
		uint32_t a = o->in->size[d], b = o->in_b->size[d], out = o->out->size[d];

		if ((a != out && a != 1) || (b != out && b != 1))
			return false;
	}
	return is_activation_range(o->operator->p, o->out) && is_between(o->operator->p[P_ZERO_OUT], -128, 127) &&
	       is_between(o->operator->p[P_ZERO_A], -128, 127) && is_between(o->operator->p[P_ZERO_B], -128, 127) &&
	       is_scale_pair(o->operator->p + P_MULTIPLIER_OUT);
}

static bool is_pool_good(const struct operands *o)
{
	const int32_t *p = o->operator->p;

	return is_activation(o->in) && is_activation(o->out) && o->in->bytes <= 1u << 23 &&
	       o->in->size[0] == o->out->size[0] && o->in->size[3] == o->out->size[3] && is_window_good(p, o->out) && is_between(p[P_FILTER_H], 1, 32767) &&
	       is_between(p[P_FILTER_W], 1, 32767);
}

static bool is_pad_good(const struct operands *o)
{
	if (o->in->type != o->out->type || !is_between(o->operator->p[P_ZERO_OUT], -128, 127) ||
	    (o->in->type != TYPE_INT8 && o->operator->p[P_ZERO_OUT] != 0))
		return false;
	for (int d = 0; d < 4; d++) {
		int32_t before = o->operator->p[P_BEFORE + d];

		/* The value is in the same list, after the numbers of the dimensions. */
		if (!is_between(before, 0, (int32_t)BLOB_MAX_DIMENSION) ||
		    (uint32_t)before + o->in->size[d] > o->out->size[d])
			return false;
	}
	return true;
}

static bool is_mean_good(const struct model *model, const struct operands *o)
{
	const int32_t *p = o->operator->p;

	if (!is_activation(o->in) || !is_activation(o->out) || !is_between(p[P_AXES], 1, 15))
		return false;
	for (int d = 0; d < 4; d++)
		if (o->out->size[d] != (p[P_AXES] >> d & 1 ? 1 : o->in->size[d]))
			return false;
	return o->in->bytes <= 1u << 23 && is_scale_pair(p + P_MEAN_MULTIPLIER) &&
	       is_between(p[P_ZERO_IN], -128, 127) && is_between(p[P_ZERO_OUT], -128, 127) &&
	       o->out->bytes <= 1u << 28 && is_scratch_good(model, o->operator, mean_scratch_bytes(o->out));
}

static bool is_concat_good(const struct operands *o)
{
	const int32_t *p = o->operator->p;

	if (!is_activation(o->in) || !is_activation(o->out) || !is_between(p[P_AXIS], 0, 3) ||
	    !is_between(p[P_OFFSET], 0, (int32_t)BLOB_MAX_DIMENSION))
		return false;
	for (int32_t d = 0; d < 4; d++) {
		uint32_t from = d == p[P_AXIS] ? (uint32_t)p[P_OFFSET] : 0;

		if (d == p[P_AXIS] ? from + o->in->size[d] > o->out->size[d] : o->in->size[d] != o->out->size[d])
			return false;
	}
	return true;
}

static bool is_softmax_good(const struct operands *o)
{
	const int32_t *p = o->operator->p;

	return is_activation(o->in) && (is_activation(o->out) || o->out->type == TYPE_INT16) &&
	       o->in->bytes == model_count(o->out) && is_between(p[P_BETA_SHIFT], 0, 31) && p[P_BETA_MULTIPLIER] >= 0 && p[P_DIFF_MIN] <= 0 &&
	       o->in->size[3] <= 4096 && o->in->place == PLACE_ARENA &&
	       (o->in->at + o->in->bytes <= o->out->at || o->out->at + o->out->bytes <= o->in->at) &&
	       /* The argument of the exponential must fit into Q5. */
	       ((int64_t)(p[P_DIFF_MIN] < -255 ? -255 : p[P_DIFF_MIN]) * ((int64_t)1 << p[P_BETA_SHIFT])) >= INT32_MIN;
}

static bool is_conversion_good(const struct operands *o)
{
	const struct blob_tensor *in = o->in, *out = o->out;
	bool from_bytes = in && TYPE_BYTES[in->type] == 1, to_bytes = out && TYPE_BYTES[out->type] == 1;

	if (!in || !out || model_count(in) != model_count(out))
		return false;
	switch (o->operator->kind) {
	case KIND_QUANTIZE:
		return in->type == TYPE_FLOAT32 && out->type == TYPE_INT8 && is_scale_good(out);
	case KIND_DEQUANTIZE:
		return from_bytes && out->type == TYPE_FLOAT32 && is_scale_good(in);
	default:
		if (in->type == TYPE_INT16)
			to_bytes = out->type == TYPE_INT8 || out->type == TYPE_INT32;
		return (from_bytes || in->type == TYPE_INT16) && to_bytes &&
		       is_scale_pair(o->operator->p + P_REQUANTIZE_MULTIPLIER) &&
		       is_between(o->operator->p[P_ZERO_IN], INT16_MIN, 255) &&
		       is_between(o->operator->p[P_ZERO_OUT], -128, 255);
	}
}

/* Elements that an input and an operator of STRIDED have in common. */
static bool is_strided_good(const struct operands *o)
{
	const int32_t *p = o->operator->p;
	int64_t lowest = p[P_FIRST], highest = p[P_FIRST];

	if (o->in->type != o->out->type || o->in->bytes > INT32_MAX)
		return false;
	for (int d = 0; d < 4; d++) {
		int64_t reach = (int64_t)p[P_STEP + d] * (o->out->size[d] - 1);

		if (!is_between(p[P_STEP + d], -(int32_t)model_count(o->in), (int32_t)model_count(o->in)))
			return false;
		lowest += reach < 0 ? reach : 0;
		highest += reach > 0 ? reach : 0;
	}
	return lowest >= 0 && highest < (int64_t)model_count(o->in);
}

static bool is_resize_good(const struct operands *o)
{
	return is_activation(o->in) && is_activation(o->out) && o->in->size[0] == o->out->size[0] &&
	       o->in->size[3] == o->out->size[3];
}

static bool are_below(const int32_t *numbers, uint32_t count, uint32_t limit)
{
	for (uint32_t i = 0; numbers && i < count; i++)
		if (!is_between(numbers[i], 0, (int32_t)limit - 1))
			return false;
	return numbers != NULL;
}

static bool is_svdf_good(const struct operands *o)
{
	const struct blob_tensor *in = o->in, *w = o->in_b, *time = o->time, *state = o->state_tensor;
	const int32_t *p = o->operator->p;

	if (!is_activation(in) || !is_activation(w) || !is_activation(o->out) || w->place != PLACE_BLOB || !time ||
	    !state || time->place != PLACE_BLOB || state->place != PLACE_ARENA || time->type != state->type ||
	    (time->type != TYPE_INT8 && time->type != TYPE_INT16) || !o->bias)
		return false;
	return in->size[0] * in->size[1] == 1 && time->size[0] * time->size[1] == 1 && w->size[0] * w->size[1] == 1 &&
	       w->size[2] == time->size[2] && w->size[3] == in->size[3] && p[P_RANK] >= 1 &&
	       o->out->bytes % in->size[2] == 0 &&
	       (uint64_t)(o->out->bytes / in->size[2]) * (uint32_t)p[P_RANK] == time->size[2] &&
	       (uint64_t)time->bytes * in->size[2] == state->bytes && is_scale_pair(p + P_MULTIPLIER_A) &&
	       is_scale_pair(p + P_MULTIPLIER_OUT) && is_between(p[P_ZERO_IN], -128, 127) &&
	       is_between(p[P_ZERO_OUT], -128, 127) &&
	       is_between(p[P_ZERO_STATE], time->type == TYPE_INT8 ? -128 : 0, time->type == TYPE_INT8 ? 127 : 0);
}

/* A matrix of int8 in the blob. */
static bool is_matrix(const struct blob_tensor *w, uint32_t rows, uint32_t columns)
{
	return is_activation(w) && w->place == PLACE_BLOB && w->size[0] * w->size[1] == 1 && w->size[2] == rows &&
	       w->size[3] == columns;
}

static bool is_lstm_good(const struct model *model, const struct operands *o)
{
	const struct blob_tensor *in = o->in, *out = o->out;
	uint32_t cells = out->size[3], states = in->size[1] * cells;
	const int32_t *p = o->operator->p;

	if (!is_activation(in) || !is_activation(out) || !o->bias || !o->recurrent_bias || !o->gate_factors || !o->state ||
	    !o->cell || (!o->table && p[P_TABLE] != (int32_t)BLOB_NONE))
		return false;
	for (int i = 0; i < LSTM_FACTORS; i += 2)
		if (!is_scale_pair(o->gate_factors + i))
			return false;
	return in->size[0] == 1 && out->size[0] == 1 && in->size[1] == out->size[1] && in->size[2] == out->size[2] &&
	       is_matrix(o->in_b, 4 * cells, in->size[3]) && is_matrix(o->recurrent, 4 * cells, cells) &&
	       is_activation(o->state_tensor) && o->state_tensor->bytes == states && is_of_words(o->cell_tensor) &&
	       o->cell_tensor->bytes == 2 * states && is_scale_pair(p + P_MULTIPLIER_OUT) &&
	       is_between(p[P_ZERO_OUT], -128, 127) && is_between(p[P_CELL_BITS], 0, 4) &&
	       is_between(p[P_CELL_CLIP], 0, INT16_MAX) &&
	       is_scratch_good(model, o->operator, lstm_scratch_bytes(out));
}

bool is_operator_good(const struct model *model, const struct operands *o)
{
	const int32_t *p = o->operator->p;

	if (!o->in || !o->out || o->out->place != PLACE_ARENA)
		return false;
	switch (o->operator->kind) {
	case KIND_CONV:
	case KIND_DEPTHWISE:
	case KIND_TRANSPOSE_CONV:
		return is_conv_good(model, o);
	case KIND_AVERAGE_POOL:
	case KIND_MAX_POOL:
		return is_pool_good(o);
	case KIND_ADD:
	case KIND_SUB:
		return is_broadcast_good(o) && is_scale_pair(p + P_MULTIPLIER_A) && is_scale_pair(p + P_MULTIPLIER_B);
	case KIND_MUL:
	case KIND_MAXIMUM:
	case KIND_MINIMUM:
		return is_broadcast_good(o);
	case KIND_PRELU:
		return is_broadcast_good(o) && is_scale_pair(p + P_MULTIPLIER_A);
	case KIND_LOOKUP:
		return is_activation(o->in) && is_activation(o->out) && o->in->bytes == o->out->bytes &&
		       is_activation(o->in_b) && o->in_b->place == PLACE_BLOB && o->in_b->bytes == 256;
	case KIND_STRIDED:
		return is_strided_good(o);
	case KIND_RESIZE_BILINEAR:
		return is_resize_good(o) && is_between(p[P_ALIGN_CORNERS], 0, 1) && is_between(p[P_HALF_PIXEL], 0, 1) &&
		       is_between(p[P_IS_UNSIGNED], 0, 1);
	case KIND_RESIZE_NEAREST:
		return is_resize_good(o) && are_below(o->rows, o->out->size[1], o->in->size[1]) &&
		       are_below(o->columns, o->out->size[2], o->in->size[2]);
	case KIND_SVDF:
		return is_svdf_good(o);
	case KIND_LSTM:
		return is_lstm_good(model, o);
	case KIND_ARG_MAX:
		return is_activation(o->in) && (o->out->type == TYPE_INT32 || o->out->type == TYPE_INT64) &&
		       is_between(p[P_AXIS], 0, 3) &&
		       (uint64_t)model_count(o->out) * o->in->size[p[P_AXIS]] == model_count(o->in);
	case KIND_LOG_SOFTMAX:
		return o->in->type == TYPE_FLOAT32 && o->out->type == TYPE_FLOAT32 && o->in->bytes == o->out->bytes;
	case KIND_COPY:
		return o->in->bytes == o->out->bytes && o->in->type == o->out->type;
	case KIND_PAD:
		return is_pad_good(o);
	case KIND_SOFTMAX:
		return is_softmax_good(o);
	case KIND_MEAN:
		return is_mean_good(model, o);
	case KIND_CONCAT:
		return is_concat_good(o);
	case KIND_QUANTIZE:
	case KIND_REQUANTIZE:
	case KIND_DEQUANTIZE:
		return is_conversion_good(o);
	default:
		return false;
	}
}
