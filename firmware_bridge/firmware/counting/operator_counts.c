/* A program in place of device/ that counts the instructions of each operator of a model, on a board of
 * QEMU's. It prints a line per operator: number, kind, instructions, CRC-32 of the output; then `end`. */
#include "core/checksum.h"
#include "core/model.h"
#include "device/device.h"
#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

#define TURNS 4u /* in a window, as in the counts of CMSIS-NN: a tick is 31 to 40 instructions */
#define NANOSECONDS_PER_S 1000000000u /* an instruction is a nanosecond with -icount shift=0 */

static void write_number(uint64_t number, char end)
{
	char digits[22];
	size_t at = sizeof digits;

	digits[--at] = end;
	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	port_write(digits + at, sizeof digits - at);
}

static void count(const struct model *model, uint32_t number)
{
	struct blob_header header = *model->header;
	struct model single = *model;
	const struct blob_operator *operator = &model->operators[number];
	const struct blob_tensor *out = &model->tensors[operator->output];
	uint64_t before, ticks;

	header.operator_count = 1;
	single.header = &header;
	single.operators = operator;
	port_begin_window();
	before = port_ticks();
	for (uint32_t turn = 0; turn < TURNS; turn++)
		model_run(&single);
	ticks = port_ticks() - before;
	write_number(number, ' ');
	write_number(operator->kind, ' ');
	write_number(ticks * NANOSECONDS_PER_S / CLOCK_HZ / TURNS, ' ');
	write_number(crc32(0, model_data(model, out), out->bytes), '\n');
}

void device_reset(enum device_mode mode)
{
	struct model model;
	uint32_t noise = 1;

	(void)mode;
	if (model_open(&model, port.model, port.model_max, port.ram, port.ram_max) == MODEL_READY) {
		const struct blob_tensor *in = model_input(&model);

		/* Numerical Recipes, section 7.1: the upper bits of a linear congruential generator. */
		for (uint32_t i = 0; i < in->bytes; i++) {
			noise = noise * 1664525u + 1013904223u;
			model.arena[in->at + i] = (uint8_t)(noise >> 24);
		}
		for (uint32_t number = 0; number < model.header->operator_count; number++)
			count(&model, number);
	}
	port_write("end\n", 4);
}

void device_receive(uint8_t byte) { (void)byte; }
bool device_is_listening(void) { return false; }
void device_listen(void) {}
