/* Opening and running a blob. */
#include "core/model.h"

#include <stdbool.h>
#include <string.h>

#include "core/checks.h"
#include "core/checksum.h"

uint32_t model_count(const struct blob_tensor *tensor)
{
	return tensor->size[0] * tensor->size[1] * tensor->size[2] * tensor->size[3];
}

const void *model_data(const struct model *model, const struct blob_tensor *tensor)
{
	return (tensor->place == PLACE_BLOB ? model->blob : model->arena) + tensor->at;
}

static const void *constants_of(const struct model *model, uint32_t type, uint32_t number, uint32_t count)
{
	const struct blob_tensor *tensor = tensor_at(model, number);

	if (!tensor || tensor->place != PLACE_BLOB || tensor->type != type || model_count(tensor) != count)
		return NULL;
	return model_data(model, tensor);
}

/* A list of int32 in the blob, with an item per channel. */
static const int32_t *constants(const struct model *model, uint32_t number, uint32_t count)
{
	return constants_of(model, TYPE_INT32, number, count);
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
	       (model_count(model_output(model, 0)) == model_count(input) &&
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
