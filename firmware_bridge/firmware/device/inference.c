#include <string.h>

#include "device/device.h"
#include "device/port.h"
#include "device/text.h"

static bool is_squared_error(void)
{
	return device.model.header->output_encoding == OUTPUT_SQUARED_ERROR;
}

static float squared_error(void)
{
	const struct blob_tensor *output = model_output(&device.model, 0);
	uint32_t count = device.model.input_bytes / 4;
	float sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		float value;

		memcpy(&value, device.input + 4 * i, 4);
		value = model_value(&device.model, output, i) - value;
		sum += value * value;
	}
	return sum / (float)count;
}

void results_print(void)
{
	bool is_first = true;

	put("m-results-[");
	if (device.state == MODEL_READY && is_squared_error()) {
		put_decimal((double)device.results_before);
	} else if (device.state == MODEL_READY) {
		for (uint32_t i = 0; i < device.model.header->output_count; i++) {
			const struct blob_tensor *output = model_output(&device.model, i);
			uint32_t count = model_count(output);

			for (uint32_t j = 0; j < count; j++, is_first = false) {
				put(is_first ? "" : ",");
				put_decimal((double)model_value(&device.model, output, j));
			}
		}
	}
	put("]\r\n");
}

static void set_input(void)
{
	if (!device.was_input_announced) {
		put_line("m-[No input loaded: zeros]", NULL);
		memset(device.input, 0, device.model.input_bytes);
	}
	model_set_input(&device.model, device.input);
}

static void end_inferences(void)
{
	device.has_inferred = true;
	if (is_squared_error())
		device.results_before = squared_error();
}

static uint64_t operator_began;
static uint32_t *operator_ticks; /* of the operator that runs */

/* What this takes counts for the next operator. */
static void count_operator(void)
{
	uint64_t now = port_ticks(), sum = *operator_ticks + (now - operator_began);

	*operator_ticks++ = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
	operator_began = now;
}

/* The ring has place for all operators, and for as many after them. */
void profile(uint32_t count)
{
	const uint32_t operators = device.model.run_count;

	if (2 * operators > port.cycles_max) {
		put_line("e-[More operators than times can be kept]", NULL);
		return;
	}
	set_input();
	put_flush();
	device.cycles_total = 0;
	memset(port.cycles, 0, 2 * operators * sizeof *port.cycles);
	port_begin_window();
	for (uint32_t i = 0; i < count; i++) {
		model_set_input(&device.model, device.input);
		operator_ticks = port.cycles;
		operator_began = port_ticks();
		model_run_observed(&device.model, count_operator);
	}
	uint64_t overhead = 0;

	for (uint32_t i = 0; i < count; i++) {
		void (*volatile after)(void) = count_operator; /* as far away as for model_run_observed */

		operator_ticks = port.cycles + operators;
		operator_began = port_ticks();
		overhead -= operator_began;
		for (uint32_t j = 0; j < operators; j++)
			after();
		overhead += operator_began;
	}
	device.profile_overhead = overhead < UINT32_MAX ? (uint32_t)overhead : UINT32_MAX;
	device.profile_count = count;
	end_inferences();
}

/* Between its two timestamps, only inferences run, and the counter is read once for each. */
void infer(uint32_t count, uint32_t warmup)
{
	set_input();
	device.profile_count = 0;
	put("m-warmup-start-");
	put_unsigned(warmup);
	put_line("", NULL);
	put_flush();
	for (uint32_t i = 0; i < warmup; i++)
		model_run(&device.model);
	put_line("m-warmup-done", NULL);
	put("m-infer-start-");
	put_unsigned(count);
	put_line("", NULL);
	put_flush();
	port_begin_window();
	timestamp_print();
	put_flush();
	uint64_t before = port_ticks();

	for (uint32_t i = 0, place = 0; i < count; i++) {
		model_run(&device.model);
		uint64_t now = port_ticks(), duration = now - before;

		port.cycles[place] = duration < UINT32_MAX ? (uint32_t)duration : UINT32_MAX;
		place = place + 1 < port.cycles_max ? place + 1 : 0;
		before = now;
	}
	timestamp_print();
	device.cycles_total = count;
	end_inferences();
	put_line("m-infer-done", NULL);
	results_print();
}
