/* What a board gives to the firmware: one implementation in each folder of ports/. */
#ifndef DEVICE_PORT_H
#define DEVICE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct port {
	const char *board, *cpu;
	const char *tick_source;
	bool is_untested; /* nobody has run this port on hardware */
	uint64_t tick_hz;
	uint8_t *model; /* where blobs lie; a multiple of 16 */
	size_t model_max;
	uintptr_t model_address; /* what a debugger calls it; 0 if that is of no use */
	bool is_model_linked;	 /* a part of the firmware: it cannot be replaced, and may be in flash */
	uint8_t *ram; /* arena and input; a multiple of 16 */
	size_t ram_max;
	uint32_t *cycles; /* ring of the inferences' durations */
	uint32_t cycles_max;
	/* Sound from outside, NULL if there is none: as many samples of 16 kHz as have come, at most count.
	 * A new one begins with a count of 0. */
	size_t (*read_sound)(int16_t *samples, size_t count);
};

extern struct port port;

uint64_t port_ticks(void);
uint64_t port_microseconds(void);
/* Just before a window is timed: the counter may be brought into a known phase, but not set back. */
void port_begin_window(void);
/* The timestamp pin: low for at least a microsecond. */
void port_pulse(void);
/* The pins of streaming firmware; a board without them has functions that do nothing. Processing is high while
 * an audio frame is processed; detection is low for a moment. */
void port_processing(bool is_high);
void port_detection(void);
void port_write(const char *data, size_t size);

#endif
