/* Interface of a board for the firmware: each folder of ports/ has an implementation. */
#ifndef DEVICE_PORT_H
#define DEVICE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct port {
	const char *board, *cpu;
	const char *tick_source;
	bool is_untested; /* the port has never run on hardware */
	bool is_without_pin; /* no timestamp pin, and so no energy mode */
	uint64_t tick_hz;
	uint8_t *model; /* address of blobs; a multiple of 16 */
	size_t model_max;
	uintptr_t model_address; /* address for a debugger; 0 if it cannot be used */
	bool is_model_linked;	 /* part of the firmware: it cannot be replaced, and may be in flash */
	uint8_t *ram; /* arena and input; a multiple of 16 */
	size_t ram_max;
	size_t code_bytes, data_bytes; /* of the firmware without a model, in flash and in RAM; 0: unknown */
	size_t stack_max;	       /* 0: the stack cannot be measured */
	uint32_t *cycles;	       /* ring of the inferences' durations, or the operators' */
	uint32_t cycles_max;
	/* Sound input, NULL if there is none: the samples at 16 kHz that have arrived, at most count.
	 * A new sound begins with a count of 0. */
	size_t (*read_sound)(int16_t *samples, size_t count);
};

extern struct port port;

uint64_t port_ticks(void);
uint64_t port_microseconds(void);
/* Called just before a timed window: may set the phase of the counter, but must not set it back. */
void port_begin_window(void);
/* The timestamp pin: low for at least a microsecond. */
void port_pulse(void);
/* The pins of streaming firmware; on a board without them the functions do nothing. Processing is high while
 * an audio frame is processed; detection is low briefly. */
void port_processing(bool is_high);
void port_detection(void);
/* Mark the memory below the stack, and the bytes of the stack that were used since then. */
void port_paint_stack(void);
size_t port_stack_peak(void);
void port_write(const char *data, size_t size);

#endif
