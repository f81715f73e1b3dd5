#include "device/device.h"

#include <string.h>

#include "device/port.h"
#include "device/text.h"

struct device device;

void set_mode(enum device_mode mode)
{
	device.is_streaming = mode == MODE_STREAMING;
	device.is_energy_mode = mode != MODE_PERFORMANCE; /* streaming firmware does not print times either */
}

const char *mode_name(void)
{
	return device.is_streaming ? "streaming" : device.is_energy_mode ? "energy" : "performance";
}

void timestamp_print(void)
{
	if (device.is_energy_mode) {
		put_flush(); /* so that no byte is sent within a window */
		port_pulse();
		return;
	}
	uint64_t now = port_microseconds();

	put("m-lap-us-");
	put_unsigned(now);
	put("\r\n");
}

void forget_input(void)
{
	device.input_load = (struct load){0};
	device.was_input_announced = false;
	device.has_inferred = false;
	device.cycles_total = 0;
	device.profile_count = 0;
	device.results_before = 0;
}

/* Look for a blob, and reserve its memory; the rest is for the input. */
void open_model(void)
{
	uint32_t arena_bytes = 0, wake_bytes = 0;

	forget_input();
	device.is_state_kept = false;
	port_paint_stack();
	device.wake = NULL;
	device.state = model_open(&device.model, port.model, port.model_max, port.ram, port.ram_max);
	if (device.state == MODEL_READY) {
		arena_bytes = (device.model.header->arena_bytes + 15) & ~15u;
		if (arena_bytes > port.ram_max || device.model.input_bytes > port.ram_max - arena_bytes) {
			device.state = MODEL_NO_MEMORY;
			arena_bytes = 0;
		}
	}
	if (device.state == MODEL_READY)
		wake_bytes = wake_open((uint32_t)(port.ram_max - arena_bytes - device.model.input_bytes));
	device.input = port.ram + arena_bytes;
	device.input_max = (uint32_t)(port.ram_max - arena_bytes - wake_bytes);
}

const char *begin_input(uint32_t size)
{
	device.input_load = (struct load){0};
	device.was_input_announced = true;
	if (size > device.input_max)
		return "Supplied buffer size";
	device.input_load = (struct load){.is_open = true, .size = size};
	if (device.state == MODEL_READY && !device.is_state_kept)
		model_reset(&device.model); /* the results of an input do not depend on those before it */
	memset(device.input, 0, size);
	return NULL;
}

void device_reset(enum device_mode mode)
{
	memset(&device, 0, sizeof device);
	set_mode(mode);
	open_model();
	put_line("m-timestamp-mode-", device.is_energy_mode ? "energy" : "performance", NULL);
	timestamp_print();
	put_line("m-init-done", NULL);
	put_line("m-ready", NULL);
	put_flush();
}

void device_receive(uint8_t byte)
{
	if (device.is_frame_mode) {
		frames_receive(byte);
		return;
	}
	if (byte < 0x20 || byte > 0x7e)
		return;
	if (byte != '%') {
		if (device.used < LINE_MAX_CHARACTERS)
			device.line[device.used++] = byte;
		else
			device.is_too_long = true;
		return;
	}
	device.line[device.used] = 0;
	if (device.is_too_long) {
		put(device.is_streaming ? "Error: Command longer than " : "e-[Command longer than ");
		put_unsigned(LINE_MAX_CHARACTERS);
		put_line(" characters", device.is_streaming ? "" : "]", NULL);
	} else if (device.is_streaming) {
		streaming_execute((char *)device.line);
	} else {
		command_execute((char *)device.line);
	}
	put_line("m-ready", NULL);
	put_flush();
	device.used = 0;
	device.is_too_long = false;
}
