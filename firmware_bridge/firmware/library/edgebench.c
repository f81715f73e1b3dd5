/* device/port.h by the functions and memories of a struct edgebench_board. */
#include "library/edgebench.h"

#include "device/device.h"
#include "device/port.h"

struct port port;
static struct edgebench_board board;

uint64_t port_ticks(void) { return board.ticks(); }

/* In two parts, as the product would overflow after hours. */
uint64_t port_microseconds(void)
{
	uint64_t ticks = board.ticks();

	return ticks / board.tick_hz * 1000000u + ticks % board.tick_hz * 1000000u / board.tick_hz;
}

void port_begin_window(void) {}

void port_pulse(void)
{
	if (board.pulse)
		board.pulse();
}

void port_processing(bool is_high) { (void)is_high; }
void port_detection(void) {}
void port_paint_stack(void)
{
	if (board.paint_stack)
		board.paint_stack();
}

size_t port_stack_peak(void) { return board.stack_peak(); }
void port_write(const char *data, size_t size) { board.write(data, size); }

void edgebench_start(const struct edgebench_board *given, bool is_energy_mode)
{
	board = *given;
	port = (struct port){
		.board = board.name, .cpu = board.cpu, .tick_source = board.tick_source, .tick_hz = board.tick_hz,
		.is_untested = !board.is_emulated, .is_without_pin = !board.pulse,
		.model = board.model, .model_max = board.model_bytes, .model_address = board.model_address,
		.is_model_linked = board.is_model_linked,
		.ram = board.ram, .ram_max = board.ram_bytes,
		.code_bytes = board.code_bytes, .data_bytes = board.data_bytes,
		.stack_max = board.stack_peak ? board.stack_bytes : 0,
		.cycles = board.durations, .cycles_max = board.durations_max,
	};
	device_reset(is_energy_mode && board.pulse ? MODE_ENERGY : MODE_PERFORMANCE);
}

void edgebench_receive(uint8_t byte) { device_receive(byte); }
bool edgebench_is_busy(void) { return device_is_listening(); }

void edgebench_poll(void)
{
	(void)board.ticks();
	device_listen();
}

uint64_t edgebench_widen(uint32_t count)
{
	static uint64_t ticks;

	ticks += count - (uint32_t)ticks;
	return ticks;
}
