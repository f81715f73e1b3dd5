/* The firmware as a library: a board is a serial line, a counter, and two areas of memory.
 *
 * Call edgebench_start once, then edgebench_receive for each byte of the line, and edgebench_poll
 * when there is none. Everything runs in the thread that calls these functions. */
#ifndef EDGEBENCH_H
#define EDGEBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct edgebench_board {
	const char *name, *cpu;
	const char *tick_source; /* what ticks() counts, such as "cyccnt" or "micros" */
	uint64_t tick_hz;
	uint64_t (*ticks)(void); /* counts up, without an overflow: see edgebench_widen */
	/* Returns when the bytes are sent, so that the line is idle in a timed window. */
	void (*write)(const char *data, size_t size);
	/* The timestamp pin: low for at least a microsecond, otherwise high. NULL: there is none, and no
	 * energy mode. */
	void (*pulse)(void);
	uint8_t *model; /* for a model that is uploaded; address and size are multiples of 16 */
	size_t model_bytes;
	uint8_t *ram; /* arena and input; address and size are multiples of 16 */
	size_t ram_bytes;
	uint32_t *durations; /* ring of the inferences' durations in ticks */
	uint32_t durations_max;
	uintptr_t model_address; /* of the model for a debugger; 0: unknown */
	bool is_model_linked;	 /* the model is part of the program; uploads are refused */
	size_t code_bytes, data_bytes; /* flash and RAM of the program, without model and stack; 0: unknown */
	/* Fill the free stack with a value, and the bytes that no longer have it; NULL: unknown. */
	void (*paint_stack)(void);
	size_t (*stack_peak)(void);
	size_t stack_bytes; /* memory for the stack */
	bool is_emulated;	 /* not hardware: a board that is emulated was tested */
};

/* Start, or start again: discard all state, look for a model, and print the banner. The board is
 * copied. */
void edgebench_start(const struct edgebench_board *board, bool is_energy_mode);
/* A byte from the line. */
void edgebench_receive(uint8_t byte);
/* Call it when no byte is pending: it processes sound, and reads the counter, which must happen at
 * least once in its period. */
void edgebench_poll(void);
/* Whether edgebench_poll has work; otherwise the caller may wait for a byte. */
bool edgebench_is_busy(void);

/* A counter of 32 bits, widened to 64; it must be called at least once in the counter's period. */
uint64_t edgebench_widen(uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
