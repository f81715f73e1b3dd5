/* Opening and running a blob. A blob from the serial line is not trusted, so it is checked completely
 * when it is opened: no operator reads or writes outside of blob and arena. */
#include "core/model.h"

#include <stdbool.h>
#include <string.h>

#include "core/checksum.h"
#include "core/kernels.h"

static const uint32_t TYPE_BYTES[] = {[TYPE_INT8] = 1, [TYPE_INT32] = 4, [TYPE_FLOAT32] = 4, [TYPE_UINT8] = 1,
				      [TYPE_INT16] = 2, [TYPE_INT64] = 8};

static bool is_within(uint32_t at, uint32_t bytes, uint32_t total) { return at <= total && bytes <= total - at; }
static bool is_between(int32_t value, int32_t low, int32_t high) { return value >= low && value <= high; }

uint32_t model_count(const struct blob_tensor *tensor) { return tensor->bytes / TYPE_BYTES[tensor->type]; }

static uint32_t element_count(const struct blob_tensor *tensor)
{
	return tensor->size[0] * tensor->size[1] * tensor->size[2] * tensor->size[3];
}

static bool is_tensor_good(const struct model *model, const struct blob_tensor *tensor)
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

static bool is_scale_good(const struct blob_tensor *tensor)
{
	return tensor->scale > 1e-30f && tensor->scale < 1e30f;
}

static const struct blob_tensor *tensor_at(const struct model *model, uint32_t number)
{
	return number < model->header->tensor_count ? &model->tensors[number] : NULL;
}

const void *model_data(const struct model *model, const struct blob_tensor *tensor)
{
	return (tensor->place == PLACE_BLOB ? model->blob : model->arena) + tensor->at;
}

static bool is_activation(const struct blob_tensor *tensor)
{
	return tensor && tensor->type == TYPE_INT8;
}

static bool is_of_words(const struct blob_tensor *tensor) { return tensor && tensor->type == TYPE_INT16; }

static const void *constants_of(const struct model *model, uint32_t type, uint32_t number, uint32_t count)
{
	const struct blob_tensor *tensor = tensor_at(model, number);

	if (!tensor || tensor->place != PLACE_BLOB || tensor->type != type || element_count(tensor) != count)
		return NULL;
	return model_data(model, tensor);
}

/* A list of int32 in the blob, with an item per channel. */
static const int32_t *constants(const struct model *model, uint32_t number, uint32_t count)
{
	return constants_of(model, TYPE_INT32, number, count);
}

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
	       o->in->bytes == element_count(o->out) && is_between(p[P_BETA_SHIFT], 0, 31) && p[P_BETA_MULTIPLIER] >= 0 && p[P_DIFF_MIN] <= 0 &&
	       o->in->size[3] <= 4096 && o->in->place == PLACE_ARENA &&
	       (o->in->at + o->in->bytes <= o->out->at || o->out->at + o->out->bytes <= o->in->at) &&
	       /* The argument of the exponential must fit into Q5. */
	       ((int64_t)(p[P_DIFF_MIN] < -255 ? -255 : p[P_DIFF_MIN]) * ((int64_t)1 << p[P_BETA_SHIFT])) >= INT32_MIN;
}

static bool is_conversion_good(const struct operands *o)
{
	const struct blob_tensor *in = o->in, *out = o->out;
	bool from_bytes = in && TYPE_BYTES[in->type] == 1, to_bytes = out && TYPE_BYTES[out->type] == 1;

	if (!in || !out || element_count(in) != element_count(out))
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

		if (!is_between(p[P_STEP + d], -(int32_t)element_count(o->in), (int32_t)element_count(o->in)))
			return false;
		lowest += reach < 0 ? reach : 0;
		highest += reach > 0 ? reach : 0;
	}
	return lowest >= 0 && highest < (int64_t)element_count(o->in);
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

static bool is_operator_good(const struct model *model, const struct operands *o)
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
		       (uint64_t)element_count(o->out) * o->in->size[p[P_AXIS]] == element_count(o->in);
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

static void *memory_of(const struct model *model, const struct blob_tensor *tensor)
{
	return tensor && tensor->place == PLACE_ARENA ? model->arena + tensor->at : NULL;
}

static void add_operands_of_lstm(const struct model *model, struct operands *o)
{
	const int32_t *p = o->operator->p;
	uint32_t rows = 4 * o->out->size[3];

	o->recurrent = tensor_at(model, o->operator->input[2]);
	o->recurrent_weights = o->recurrent ? model_data(model, o->recurrent) : NULL;
	o->bias = constants(model, (uint32_t)p[P_INPUT_BIAS], rows);
	o->recurrent_bias = constants(model, (uint32_t)p[P_RECURRENT_BIAS], rows);
	o->gate_factors = constants(model, (uint32_t)p[P_GATE_FACTORS], LSTM_FACTORS);
	o->table = constants_of(model, TYPE_INT16, (uint32_t)p[P_TABLE], LSTM_TABLE_ITEMS);
	o->state_tensor = tensor_at(model, (uint32_t)p[P_HIDDEN]);
	o->cell_tensor = tensor_at(model, (uint32_t)p[P_CELL]);
	o->state = memory_of(model, o->state_tensor);
	o->cell = memory_of(model, o->cell_tensor);
}

static struct operands operands_of(const struct model *model, const struct blob_operator *op)
{
	struct operands o = {.operator = op, .in = tensor_at(model, op->input[0]),
			     .in_b = tensor_at(model, op->input[1]), .out = tensor_at(model, op->output)};

	o.a = o.in ? model_data(model, o.in) : NULL;
	o.b = o.in_b ? model_data(model, o.in_b) : NULL;
	o.result = memory_of(model, o.out);
	o.scratch = model->arena + op->scratch_at;
	if (o.out && (op->kind == KIND_CONV || op->kind == KIND_DEPTHWISE || op->kind == KIND_TRANSPOSE_CONV)) {
		uint32_t channels = o.out->size[3];

		o.bias = constants(model, op->input[2], channels);
		o.wide_bias = constants_of(model, TYPE_INT64, op->input[2], channels);
		o.multipliers = constants(model, (uint32_t)op->p[P_MULTIPLIERS], channels);
		o.shifts = constants(model, (uint32_t)op->p[P_SHIFTS], channels);
	}
	if (o.in && o.out && op->kind == KIND_SVDF) {
		o.bias = constants(model, op->input[2], o.out->bytes / o.in->size[2]);
		o.time = tensor_at(model, (uint32_t)op->p[P_TIME_WEIGHTS]);
		o.state_tensor = tensor_at(model, (uint32_t)op->p[P_STATE]);
		o.time_weights = o.time ? model_data(model, o.time) : NULL;
		o.state = memory_of(model, o.state_tensor);
	}
	if (o.out && op->kind == KIND_LSTM)
		add_operands_of_lstm(model, &o);
	if (o.out && op->kind == KIND_RESIZE_NEAREST) {
		o.rows = constants(model, op->input[1], o.out->size[1]);
		o.columns = constants(model, op->input[2], o.out->size[2]);
	}
	return o;
}

static bool is_header_good(const struct blob_header *header, size_t blob_max)
{
	return header->version == BLOB_VERSION && header->bytes >= sizeof *header + BLOB_SPARE &&
	       header->bytes <= blob_max && header->tensor_count <= BLOB_MAX_TENSORS &&
	       header->operator_count <= BLOB_MAX_OPERATORS && header->output_count >= 1 &&
	       header->output_count <= BLOB_MAX_OUTPUTS && header->tensors_at % 4 == 0 &&
	       header->operators_at % 4 == 0 && header->arena_bytes >= BLOB_SPARE &&
	       is_within(header->tensors_at, header->tensor_count * (uint32_t)sizeof(struct blob_tensor),
			 header->bytes) &&
	       is_within(header->operators_at, header->operator_count * (uint32_t)sizeof(struct blob_operator),
			 header->bytes) &&
	       header->input_encoding <= INPUT_FLOAT32 && header->output_encoding <= OUTPUT_SQUARED_ERROR &&
	       header->rounding <= ROUNDING_TFLM && memchr(header->id, 0, sizeof header->id) != NULL &&
	       crc32(0, (const uint8_t *)header + BLOB_CHECKED_FROM, header->bytes - BLOB_CHECKED_FROM) ==
		       header->crc32;
}

/* The name is printed in lines of the protocol. */
static bool is_id_good(const char *id)
{
	if (!*id)
		return false;
	for (; *id; id++)
		if (!((*id >= '0' && *id <= '9') || (*id >= 'a' && *id <= 'z') || (*id >= 'A' && *id <= 'Z') ||
		      *id == '.' || *id == '_' || *id == '-'))
			return false;
	return true;
}

static bool is_interface_good(struct model *model)
{
	const struct blob_header *header = model->header;
	const struct blob_tensor *input = tensor_at(model, header->input), *output;

	if (!input || input->place != PLACE_ARENA || (header->input_encoding != INPUT_INT8 && input->type != TYPE_INT8))
		return false;
	model->input_bytes = input->bytes * (header->input_encoding == INPUT_FLOAT32 ? 4 : 1);
	if (header->input_encoding == INPUT_FLOAT32 && input->bytes > 1u << 28)
		return false;
	/* Floats and features of sound are divided by it. */
	if (input->type == TYPE_INT8 && !is_scale_good(input))
		return false;
	for (uint32_t i = 0; i < header->output_count; i++) {
		output = model_output(model, i);
		if (!output || output->place != PLACE_ARENA || !is_scale_good(output))
			return false;
		model->output_bytes += output->bytes;
	}
	return header->output_encoding != OUTPUT_SQUARED_ERROR ||
	       (element_count(model_output(model, 0)) == element_count(input) &&
		header->input_encoding == INPUT_FLOAT32);
}

enum model_state model_open(struct model *model, const uint8_t *blob, size_t blob_max, uint8_t *arena,
			    size_t arena_max)
{
	const struct blob_header *header = (const struct blob_header *)(const void *)blob;

	*model = (struct model){.header = header, .blob = blob, .arena = arena};
	if (blob_max < sizeof *header || header->magic != BLOB_MAGIC)
		return MODEL_NONE;
	if (!is_header_good(header, blob_max) || !is_id_good(header->id))
		return MODEL_BAD_HEADER;
	model->tensors = (const struct blob_tensor *)(const void *)(blob + header->tensors_at);
	model->operators = (const struct blob_operator *)(const void *)(blob + header->operators_at);
	if (header->arena_bytes > arena_max)
		return MODEL_NO_MEMORY;
	for (uint32_t i = 0; i < header->tensor_count; i++)
		if (!is_tensor_good(model, &model->tensors[i]))
			return MODEL_BAD_TENSOR;
	if (!is_interface_good(model))
		return MODEL_BAD_TENSOR;
	for (uint32_t i = 0; i < header->operator_count; i++) {
		struct operands o = operands_of(model, &model->operators[i]);

		if (!is_operator_good(model, &o))
			return MODEL_BAD_OPERATOR;
		model->run_count += !(o.operator->flags & FLAG_RESET);
	}
	memset(arena, 0, header->arena_bytes);
	model_reset(model);
	return MODEL_READY;
}

void model_set_input(const struct model *model, const uint8_t *data)
{
	const struct blob_tensor *input = tensor_at(model, model->header->input);
	uint8_t *to = model->arena + input->at;

	switch (model->header->input_encoding) {
	case INPUT_UINT8:
		for (uint32_t i = 0; i < input->bytes; i++)
			to[i] = data[i] ^ 0x80;
		break;
	case INPUT_FLOAT32:
		for (uint32_t i = 0; i < input->bytes; i++) {
			float value;

			memcpy(&value, data + 4 * i, 4);
			to[i] = (uint8_t)quantize_value(value, input->scale, input->zero_point);
		}
		break;
	default:
		memcpy(to, data, input->bytes);
	}
}

#define OPERATOR(kind, kernel) [KIND_##kind] = {#kind, kernel}

static const struct {
	const char *name;
	void (*kernel)(const struct operands *o);
} OPERATORS[] = {
	OPERATOR(CONV, conv), OPERATOR(DEPTHWISE, depthwise), OPERATOR(AVERAGE_POOL, average_pool),
	OPERATOR(MAX_POOL, max_pool), OPERATOR(ADD, add), OPERATOR(MUL, mul), OPERATOR(COPY, copy),
	OPERATOR(PAD, pad), OPERATOR(SOFTMAX, softmax), OPERATOR(MEAN, mean), OPERATOR(CONCAT, concat),
	OPERATOR(QUANTIZE, quantize), OPERATOR(REQUANTIZE, requantize), OPERATOR(DEQUANTIZE, dequantize),
	OPERATOR(SUB, sub), OPERATOR(MAXIMUM, maximum), OPERATOR(MINIMUM, minimum), OPERATOR(PRELU, prelu),
	OPERATOR(LOOKUP, lookup), OPERATOR(STRIDED, strided), OPERATOR(RESIZE_BILINEAR, resize_bilinear),
	OPERATOR(RESIZE_NEAREST, resize_nearest), OPERATOR(TRANSPOSE_CONV, transpose_conv),
	OPERATOR(SVDF, svdf), OPERATOR(ARG_MAX, arg_max), OPERATOR(LOG_SOFTMAX, log_softmax),
	OPERATOR(LSTM, lstm),
};

/* Run the operators whose flag for the reset is as given. Inlined, so that an inference that is not
 * observed does not test for it. */
static inline __attribute__((always_inline)) void run(const struct model *model, uint32_t flag, void (*after)(void))
{
	for (uint32_t i = 0; i < model->header->operator_count; i++) {
		if ((model->operators[i].flags & FLAG_RESET) != flag)
			continue;
		struct operands o = operands_of(model, &model->operators[i]);

		OPERATORS[o.operator->kind].kernel(&o);
		if (after)
			after();
	}
}

void model_run(const struct model *model) { run(model, 0, NULL); }
void model_run_observed(const struct model *model, void (*after)(void)) { run(model, 0, after); }
void model_reset(const struct model *model) { run(model, FLAG_RESET, NULL); }

const char *model_next_name(const struct model *model, uint32_t *index)
{
	while (*index < model->header->operator_count) {
		const struct blob_operator *operator = &model->operators[(*index)++];

		if (!(operator->flags & FLAG_RESET))
			return OPERATORS[operator->kind].name;
	}
	return NULL;
}

const struct blob_tensor *model_input(const struct model *model) { return tensor_at(model, model->header->input); }

const struct blob_tensor *model_output(const struct model *model, uint32_t index)
{
	return tensor_at(model, model->header->output[index]);
}

float model_value(const struct model *model, const struct blob_tensor *tensor, uint32_t index)
{
	const uint8_t *data = model_data(model, tensor);
	float value;
	int32_t whole;
	int64_t index_value;
	int16_t word;

	switch (tensor->type) {
	case TYPE_INT16:
		memcpy(&word, data + 2 * index, 2);
		return (float)(word - tensor->zero_point) * tensor->scale;
	case TYPE_INT64:
		memcpy(&index_value, data + 8 * index, 8);
		return ((float)index_value - (float)tensor->zero_point) * tensor->scale;
	case TYPE_INT32:
		memcpy(&whole, data + 4 * index, 4);
		return ((float)whole - (float)tensor->zero_point) * tensor->scale;
	case TYPE_INT8:
		return (float)((int8_t)data[index] - tensor->zero_point) * tensor->scale;
	case TYPE_UINT8:
		return (float)(data[index] - tensor->zero_point) * tensor->scale;
	default:
		memcpy(&value, data + 4 * index, 4);
		return value;
	}
}
