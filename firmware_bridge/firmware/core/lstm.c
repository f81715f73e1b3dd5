/* LSTM of int8, whose gates and cell are int16, without projection, peepholes and layer normalisation.
 *
 * Gates are in the order of TFLite's inputs: input, forget, cell, output. TensorFlow Lite Micro
 * looks up its logistic function in a table, which is then in the blob; LiteRT computes it with
 * gemmlowp's functions of int16. Qn has n bits before the point.
 *
 * Sources: tensorflow/lite/kernels/lstm_eval.cc (`LstmStepInteger8x8_16`), tensorflow/lite/micro/
 * kernels/lstm_eval.cc, tensorflow/lite/kernels/internal/reference/integer_ops/logistic.h and
 * tanh.h, gemmlowp/fixedpoint/fixedpoint.h. */
#include "core/fixed_point.h"
#include "core/kernels.h"

enum gate { GATE_INPUT, GATE_FORGET, GATE_CELL, GATE_OUTPUT, GATE_COUNT };

#define GATE_BITS 3 /* before the point, in the argument of a gate's function */

static int32_t saturated(int32_t value) { return clamp(value, INT16_MIN, INT16_MAX); }

/* a * b / 2^15, halves rounded up. */
static int32_t word_high(int32_t a, int32_t b) { return saturated((a * b + (1 << 14)) >> 15); }

/* exp of a negative Q<bits>, in Q0: the functions of softmax.c, with half of the bits. */
static int32_t exp_of_word(int32_t a, int32_t bits)
{
	/* exp(-2^n) for n from -2 to 4 */
	static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
	const int32_t exp_of_eighth = 28918, third = 10923;
	int32_t fraction = 15 - bits, quarter = 1 << (fraction - 2);
	int32_t small = (a & (quarter - 1)) - quarter, rest = small - a;
	int32_t x = saturated(small * (1 << bits)) + (1 << 12);
	int32_t x2 = word_high(x, x), x3 = word_high(x2, x), x4 = word_high(x2, x2);
	int32_t series = x + rounding_right(word_high(rounding_right(x4, 2) + x3, third) + x2, 1);
	int32_t result = saturated(exp_of_eighth + word_high(exp_of_eighth, series));

	for (int32_t n = -2; n < bits; n++)
		if (rest & 1 << (fraction + n))
			result = word_high(result, powers[n + 2]);
	return result;
}

/* 2 / (1 + a) of a Q0 in [0, 1], in Q2: three steps of Newton's division. */
static int32_t word_reciprocal(int32_t a)
{
	const int32_t c48_17 = 23130, c32_17 = 15420, one = 1 << 13; /* Q2 */
	int32_t half = (a + INT16_MAX + 1) / 2, x = c48_17 + word_high(half, -c32_17);

	for (int i = 0; i < 3; i++)
		x += saturated(word_high(x, one - word_high(half, x)) * 4);
	return x;
}

/* Q0 of a Q3. */
static int32_t logistic_of(int32_t value)
{
	if (value == 0)
		return 1 << 14;
	int32_t result = saturated(word_reciprocal(exp_of_word(value < 0 ? value : -value, GATE_BITS)) * 2);

	return value > 0 ? result : INT16_MAX - result;
}

/* Q0 of a Q<bits>. exp(-2 |x|) is that of the same bits, with one more before the point. */
static int32_t tanh_of(int32_t value, int32_t bits)
{
	if (value == 0)
		return 0;
	int32_t reciprocal = word_reciprocal(exp_of_word(value < 0 ? value : -value, bits + 1));
	int32_t result = saturated((reciprocal - (1 << 13)) * 4);

	return value > 0 ? result : -result;
}

/* 2^(16 + bits) logistic(x) of a non-negative x in steps of 1 / (24 * 2^bits). */
static int32_t looked_up(const uint16_t *table, int32_t x, int32_t bits)
{
	int32_t place = x >> bits;

	if (place >= LSTM_TABLE_ITEMS - 1)
		return INT32_MAX;
	return (table[place] << bits) + (x & ((1 << bits) - 1)) * (table[place + 1] - table[place]);
}

static int32_t logistic_by(const uint16_t *table, int32_t value)
{
	const int32_t bits = 9, half = 1 << 9;
	int32_t x = value * 3, result = looked_up(table, x < 0 ? -x : x, bits);

	if (result == INT32_MAX)
		result = INT16_MAX << 10;
	return (x >= 0 ? result + half : (1 << 25) - result + half - 1) >> 10;
}

static int32_t tanh_by(const uint16_t *table, int32_t value, int32_t value_bits)
{
	const int32_t bits = 8, half = 1 << 7;
	int32_t left = value_bits - GATE_BITS;
	int32_t x = left >= 0 ? value * (3 << left) : (value * 3 + (1 << (-left - 1))) >> -left;
	int32_t result = looked_up(table, x < 0 ? -x : x, bits);

	if (result == INT32_MAX)
		result = UINT16_MAX << 8;
	return (x >= 0 ? result - (1 << 23) + half : (1 << 23) - result + half - 1) >> 8;
}

/* The zero points of input and state are folded into the biases. */
static void run_gate(const struct operands *o, enum gate gate, const int8_t *in, const int8_t *hidden, int16_t *to)
{
	uint32_t width = o->in->size[3], cells = o->out->size[3];
	const int32_t *factors = o->gate_factors + 4 * gate;

	for (uint32_t c = 0; c < cells; c++) {
		uint32_t row = gate * cells + c;
		int32_t sum = row_products(in, (const int8_t *)o->b + row * width, width, o->bias[row]);
		int32_t kept = row_products(hidden, o->recurrent_weights + row * cells, cells, o->recurrent_bias[row]);
		int32_t new_part = saturated(scale_twice(sum, factors[0], factors[1]));
		int32_t old_part = scale_twice(kept, factors[2], factors[3]);

		if (o->table)
			old_part = saturated(old_part);
		int32_t value = saturated(wrapping_add(new_part, old_part));

		if (o->table)
			value = gate == GATE_CELL ? tanh_by(o->table, value, GATE_BITS) : logistic_by(o->table, value);
		else
			value = gate == GATE_CELL ? tanh_of(value, GATE_BITS) : logistic_of(value);
		to[c] = (int16_t)value;
	}
}

/* value / 2^bits; TensorFlow Lite Micro multiplies with a factor, which rounds after each of two steps. */
static int32_t divided(const struct operands *o, int32_t value, int32_t bits)
{
	return o->table ? saturated(scale_twice(value, 1 << 30, 1 - bits)) : (int16_t)rounding_right(value, bits);
}

static void step(const struct operands *o, const int8_t *in, int8_t *hidden, int16_t *cell, int8_t *out)
{
	const int32_t *p = o->operator->p;
	uint32_t cells = o->out->size[3];
	int16_t *gates = o->scratch;

	for (uint32_t gate = 0; gate < GATE_COUNT; gate++)
		run_gate(o, gate, in, hidden, gates + gate * cells);
	for (uint32_t c = 0; c < cells; c++) {
		int32_t kept = divided(o, gates[GATE_FORGET * cells + c] * cell[c], 15);
		int32_t taken = divided(o, gates[GATE_INPUT * cells + c] * gates[GATE_CELL * cells + c],
					15 + p[P_CELL_BITS]);
		int32_t value = saturated(kept + taken), limit = p[P_CELL_CLIP];

		if (limit > 0)
			value = clamp(value, -limit, limit);
		cell[c] = (int16_t)value;
		value = o->table ? tanh_by(o->table, value, p[P_CELL_BITS]) : tanh_of(value, p[P_CELL_BITS]);
		value = scale_twice(gates[GATE_OUTPUT * cells + c] * value, p[P_MULTIPLIER_OUT], p[P_SHIFT_OUT]);
		hidden[c] = (int8_t)clamp(wrapping_add(value, p[P_ZERO_OUT]), INT8_MIN, INT8_MAX);
		out[c] = hidden[c];
	}
}

uint32_t lstm_scratch_bytes(const struct blob_tensor *out) { return GATE_COUNT * 2 * out->size[3]; }

void lstm(const struct operands *o)
{
	uint32_t steps = o->in->size[2], width = o->in->size[3], cells = o->out->size[3];
	const int8_t *in = o->a;
	int8_t *out = o->result;

	for (uint32_t n = 0; n < o->in->size[1]; n++)
		for (uint32_t i = 0; i < steps; i++, in += width, out += cells)
			step(o, in, (int8_t *)o->state + n * cells, (int16_t *)o->cell + n * cells, out);
}
