/* The device as seen from its serial line: docs/firmware-protocol.md. Output goes to port_write; the
 * owner of the line calls device_receive with its input. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model.h"

#define LINE_MAX_CHARACTERS 1031
#define FRAME_MAX_DATA 1024
#define FRAME_WINDOW 2
/* Kind, sequence, offset, data and CRC, with a byte of COBS for every 254 and another. */
#define FRAME_MAX_WIRE (1 + 1 + 4 + FRAME_MAX_DATA + 4 + 5)

struct load {
	bool is_open;
	uint32_t size, received, crc32;
};

/* Modes of timing: docs/firmware-protocol.md. */
enum device_mode { MODE_PERFORMANCE, MODE_ENERGY, MODE_STREAMING };

struct device {
	bool is_energy_mode, is_streaming, is_frame_mode, is_too_long;
	uint32_t used; /* characters of the line, or bytes of the frame */
	uint8_t line[FRAME_MAX_WIRE + 1];
	enum model_state state;
	struct model model;
	uint8_t *input;
	uint32_t input_max;
	struct load input_load, model_load;
	bool was_input_announced; /* since the reset or the last model */
	bool has_inferred;
	bool is_state_kept; /* variables stay when an input begins */
	uint32_t cycles_total; /* inferences of the last infer */
	uint32_t profile_count; /* inferences of the last profile; 0: the ring has none */
	uint32_t profile_overhead; /* ticks that its reads of the counter took */
	float results_before;  /* mean squared error of the last inference */
	struct wake *wake;     /* NULL: not a streaming model */
};

extern struct device device;

/* Reset: discard all state, look for a model, and print the banner. */
void device_reset(enum device_mode mode);
void device_receive(uint8_t byte);
/* While it listens, the owner of the line calls device_listen when no byte is pending. */
bool device_is_listening(void);
void device_listen(void);

/* Functions of the files in this folder, for each other. */
void command_execute(char *line);
bool command_shared(const char *word, char *rest);
void streaming_execute(char *line);
void frames_receive(uint8_t byte);
void infer(uint32_t count, uint32_t warmup);
void profile(uint32_t count);
void results_print(void);
void timestamp_print(void);
const char *begin_input(uint32_t size);
void open_model(void);
void forget_input(void);
void set_mode(enum device_mode mode);
const char *mode_name(void);
uint32_t wake_open(uint32_t free_bytes);
void wake_start(void);
void wake_stop(void);
void wake_state(void);
void wake_detections(void);
void wake_extract(void);

#endif
