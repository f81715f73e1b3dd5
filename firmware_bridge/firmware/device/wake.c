/* Wake words in streaming audio: MLPerf Tiny's streaming firmware, docs/firmware-protocol.md.
 *
 * Between start and stop an audio frame of 512 samples is due every 32 ms. With the 512 before it, it makes 40
 * features; those of the last 30 frames are the model's input. Late frames are not lost: they stay in
 * the sound buffer, and are processed in order.
 *
 * Source of steps, lines and numbers: mlcommons/tiny, benchmark/reference_submissions/streaming_wakeword
 * (sww_ref_util.c, sww_ref_util_submitter.c, sww_ref_util.h). */
#include <string.h>

#include "core/features.h"
#include "device/device.h"
#include "device/port.h"
#include "device/text.h"

#define FRAME_US 32000u
#define FEATURE_FRAMES 30u
#define MODEL_INPUT (FEATURE_FRAMES * FEATURE_BANDS)
#define MODEL_OUTPUT 3u
#define DETECTION_ABOVE 115   /* DETECT_THRESHOLD */
#define ACTIVATIONS_MAX 64000u /* G_GP_BUFF_BYTES; 34 minutes */
#define DETECTIONS_MAX 128u
#define VALUES_A_LINE 16u

struct detection {
	uint32_t frame, after_us; /* since the start */
};

struct wake {
	struct feature_space space;
	int16_t samples[FEATURE_SAMPLES], before;
	int8_t features[MODEL_INPUT], newest[MODEL_OUTPUT];
	bool is_listening;
	uint64_t began_us, due_us;
	uint32_t filled;  /* of the next frame */
	uint32_t played;  /* bytes of the loaded sound */
	uint32_t heard;   /* frames */
	uint32_t detected;
	struct detection detections[DETECTIONS_MAX];
	uint32_t activations_max;
	int8_t activations[];
};

static bool is_wake_model(void)
{
	const struct blob_header *header = device.model.header;
	const struct blob_tensor *in = model_input(&device.model), *out = model_output(&device.model, 0);

	return header->input_encoding == INPUT_INT8 && in->type == TYPE_INT8 && in->size[1] == FEATURE_FRAMES &&
	       in->size[3] == FEATURE_BANDS && in->bytes == MODEL_INPUT && header->output_count == 1 &&
	       out->type == TYPE_INT8 && out->bytes == MODEL_OUTPUT;
}

static void forget_sound(struct wake *wake)
{
	memset(wake->samples, 0, sizeof wake->samples);
	memset(wake->features, 0, sizeof wake->features);
	wake->before = 0;
	wake->filled = 0;
}

/* Size of the memory at the end of the RAM for a streaming model, at most half of the free RAM for activations. */
uint32_t wake_open(uint32_t free_bytes)
{
	uint32_t own = sizeof(struct wake) + 15, activations, bytes;

	if (!is_wake_model() || free_bytes < own + 2)
		return 0;
	activations = (free_bytes - own) / 2;
	activations = activations < ACTIVATIONS_MAX ? activations : ACTIVATIONS_MAX;
	bytes = ((uint32_t)sizeof(struct wake) + activations + 15) & ~15u;
	device.wake = (struct wake *)(void *)(port.ram + port.ram_max - bytes);
	memset(device.wake, 0, sizeof *device.wake);
	device.wake->activations_max = activations;
	return bytes;
}

static void put_error(const char *text)
{
	put_line(device.is_streaming ? "Error: " : "e-[", text, device.is_streaming ? "" : "]", NULL);
}

/* Process a frame: the newer half of its samples has arrived. */
static void process_frame(struct wake *wake)
{
	const struct blob_tensor *in = model_input(&device.model), *out = model_output(&device.model, 0);
	float bands[FEATURE_BANDS];

	features_of(wake->samples, wake->before, bands, &wake->space);
	wake->before = wake->samples[FEATURE_STRIDE - 1];
	memmove(wake->features, wake->features + FEATURE_BANDS, MODEL_INPUT - FEATURE_BANDS);
	for (uint32_t i = 0; i < FEATURE_BANDS; i++) {
		float value = bands[i] / in->scale + (float)in->zero_point; /* truncated, as in the reference */

		wake->features[MODEL_INPUT - FEATURE_BANDS + i] =
			(int8_t)(value < -128 ? -128 : value > 127 ? 127 : (int32_t)value);
	}
	model_set_input(&device.model, (const uint8_t *)wake->features);
	model_run(&device.model);
	memcpy(wake->newest, model_data(&device.model, out), MODEL_OUTPUT);
	device.has_inferred = true;
}

static void make_room(struct wake *wake)
{
	memmove(wake->samples, wake->samples + FEATURE_STRIDE, FEATURE_STRIDE * sizeof *wake->samples);
	wake->filled = 0;
}

static size_t read_loaded(struct wake *wake, int16_t *samples, size_t count)
{
	size_t left = (device.input_load.received - wake->played) / sizeof *samples;

	count = count < left ? count : left;
	memcpy(samples, device.input + wake->played, count * sizeof *samples);
	wake->played += (uint32_t)(count * sizeof *samples);
	return count;
}

static bool is_sound_loaded(void) { return device.input_load.received >= FEATURE_STRIDE * sizeof(int16_t); }

bool device_is_listening(void) { return device.wake && device.wake->is_listening; }

void device_listen(void)
{
	struct wake *wake = device.wake;
	uint64_t now_us = port_microseconds();

	if (!device_is_listening() || now_us < wake->due_us)
		return;
	size_t wanted = FEATURE_STRIDE - wake->filled;
	int16_t *to = wake->samples + FEATURE_STRIDE + wake->filled;

	wake->filled += (uint32_t)(port.read_sound ? port.read_sound(to, wanted) : read_loaded(wake, to, wanted));
	if (wake->filled < FEATURE_STRIDE) {
		wake->due_us = now_us; /* no sound: the next frame is in time at any moment */
		return;
	}
	wake->due_us += FRAME_US;
	port_processing(true);
	port_begin_window();
	uint64_t before = port_ticks();

	process_frame(wake);
	uint64_t duration = port_ticks() - before;

	make_room(wake);
	port.cycles[wake->heard % port.cycles_max] = duration < UINT32_MAX ? (uint32_t)duration : UINT32_MAX;
	if (wake->heard == 0 || wake->newest[0] > DETECTION_ABOVE) {
		port_detection();
		if (wake->detected < DETECTIONS_MAX)
			wake->detections[wake->detected] = (struct detection){
				wake->heard, (uint32_t)(port_microseconds() - wake->began_us)};
		wake->detected++;
	}
	if (wake->heard < wake->activations_max)
		wake->activations[wake->heard] = wake->newest[0];
	device.cycles_total = ++wake->heard;
	port_processing(false);
}

void wake_start(void)
{
	struct wake *wake = device.wake;

	if (!wake) {
		put_error(device.state == MODEL_READY ? "The model is none of 30 frames with 40 features" : "No model");
		return;
	}
	if (wake->is_listening) {
		put_line("I2S Rx currently in progress. Ignoring request", NULL);
		return;
	}
	if (!port.read_sound && !is_sound_loaded()) {
		put_error("No sound: this port has no input for it, and no samples are loaded");
		return;
	}
	put_line("Listening for I2S data ... ", NULL);
	put_flush();
	model_reset(&device.model);
	forget_sound(wake);
	wake->played = wake->heard = wake->detected = 0;
	device.cycles_total = 0;
	device.profile_count = 0;
	if (port.read_sound)
		port.read_sound(NULL, 0);
	port_pulse();
	/* The pulse of this pin lets a host align its times with those of the other pins. */
	port_processing(true);
	port_processing(false);
	wake->is_listening = true;
	wake->began_us = port_microseconds();
	wake->due_us = wake->began_us + FRAME_US;
	put_line("DMA receive initiated.", NULL);
}

/* As in the reference: 16 per line, with a space in place of the last comma. */
static void put_activations(const struct wake *wake)
{
	uint32_t count = wake->heard < wake->activations_max ? wake->heard : wake->activations_max;

	put("[");
	for (uint32_t i = 0; i < count; i++) {
		put_signed(wake->activations[i]);
		put(i + 1 < count ? ", " : "  ");
		if (i % VALUES_A_LINE == VALUES_A_LINE - 1 || i + 1 == count)
			put_line("", NULL);
	}
	put_line("]", NULL);
}

void wake_stop(void)
{
	struct wake *wake = device.wake;

	if (!device_is_listening()) {
		put_line("I2S is already idle.  Ignoring stop request", NULL);
		return;
	}
	wake->is_listening = false;
	put_flush();
	port_pulse();
	put_line("Streaming stopped.", NULL);
	put_line("target activations: ", NULL);
	put_activations(wake);
}

void wake_state(void)
{
	const struct wake *wake = device.wake;

	put("g_i2s_state = ");
	put_unsigned(device_is_listening() ? 2 : 0); /* Streaming, Idle */
	put(", g_int16s_read=");
	put_unsigned(wake ? (uint64_t)wake->heard * FEATURE_STRIDE + wake->filled : 0);
	put_line("", NULL);
}

/* Frame and time of each, including the first frame, which has its own pulse. */
void wake_detections(void)
{
	const struct wake *wake = device.wake;
	uint32_t total = wake ? wake->detected : 0, kept = total < DETECTIONS_MAX ? total : DETECTIONS_MAX;

	put("m-detections-[");
	put_unsigned(total);
	put(",");
	put_unsigned(kept);
	put_line("]", NULL);
	for (uint32_t i = 0; i < kept; i++) {
		put("m-detection-[");
		put_unsigned(wake->detections[i].frame);
		put(",");
		put_unsigned(wake->detections[i].after_us);
		put_line("]", NULL);
	}
}

/* Same as printf's %+3d. */
static void put_signed_wide(int8_t value)
{
	put(value > -10 && value < 10 ? " " : "");
	put(value < 0 ? "" : "+");
	put_signed(value);
}

void wake_extract(void)
{
	struct wake *wake = device.wake;

	if (!wake || !is_sound_loaded()) {
		put_error(wake ? "512 samples of 16 bits are needed: db load 1024" : "No model that listens");
		return;
	}
	memcpy(wake->samples + FEATURE_STRIDE, device.input, FEATURE_STRIDE * sizeof *wake->samples);
	port_processing(true);
	process_frame(wake);
	port_processing(false);
	make_room(wake);
	put("m-features-[");
	for (uint32_t i = 0; i < FEATURE_BANDS; i++) {
		put(i ? ", " : "");
		put_signed_wide(wake->features[MODEL_INPUT - FEATURE_BANDS + i]);
	}
	put("]\r\nm-activations-[");
	for (uint32_t i = 0; i < MODEL_OUTPUT; i++) {
		put(i ? ", " : "");
		put_signed_wide(wake->newest[i]);
	}
	put_line("]", NULL);
}
