#include <string.h>

#include "core/checksum.h"
#include "core/kernels.h"
#include "device/device.h"
#include "device/port.h"
#include "device/text.h"
#include "device/words.h"

#define MAX_SHOWN 80 /* characters of an unknown word; the reference has no space for more */
#define VERSION "ULPMark for tinyML Firmware V0.0.1"
#define OUT_BYTES_A_LINE 64
#define CYCLES_A_LINE 16
#define LISTENING "e-[Listening: stop first]"

static const char *const STATES[] = {"ready", "none", "bad_header", "bad_operator", "bad_tensor", "no_memory"};

static void load_begin(char *word)
{
	if (!word) {
		put_line("e-[Command 'db load' requires the # of bytes]", NULL);
		return;
	}
	int64_t size = number_of(word);

	if (size <= 0) {
		put_line("e-[Command 'db load' must be >0 bytes]", NULL);
		return;
	}
	const char *problem = begin_input((uint32_t)size);

	put(problem ? "e-[" : "m-[Expecting ");
	put(problem ? problem : "");
	put(problem ? " " : "");
	put_unsigned((uint64_t)size);
	if (problem) {
		put(" exceeds maximum of ");
		put_unsigned(device.input_max);
		put_line("]", NULL);
	} else {
		put_line(" bytes]", NULL);
	}
}

static void load_bytes(const char *hex)
{
	struct load *load = &device.input_load;
	size_t length = strlen(hex);

	if (!load->is_open || (load->received == load->size && length)) {
		put_line(load->is_open ? "e-[More bytes than 'db load' announced]" : "e-[No 'db load' before 'db']",
			 NULL);
		return;
	}
	if (length % 2) {
		put_line("e-[Insufficent number of hex digits]", NULL); /* the spelling of the reference */
		return;
	}
	/* Same as the reference: digits after the last byte are silently ignored. */
	for (size_t i = 0; i < length && load->received < load->size; i += 2) {
		int high = digit_of(hex[i]), low = digit_of(hex[i + 1]);

		if (high < 0 || low < 0) {
			char pair[3] = {hex[i], hex[i + 1], 0};

			put_line("e-[Invalid hex digit '", pair, "']", NULL);
			return;
		}
		device.input[load->received++] = (uint8_t)(high << 4 | low);
	}
	if (load->received == load->size)
		put_line("m-load-done", NULL);
}

static void load_print(void)
{
	uint32_t count = device.input_load.size;

	for (uint32_t i = 0; i < count; i++) {
		put(i % 8 == 0 ? "m-buffer-" : "-");
		put_hex(device.input + i, 1);
		if (i % 8 == 7 || i == count - 1)
			put_line("", NULL);
	}
	if (count % 8)
		put_line("", NULL);
}

static void command_db(char *rest)
{
	char *word = next_word(&rest);

	if (!word)
		put_line("e-[Command 'db' requires a subcommand]", NULL);
	else if (device_is_listening())
		put_line(LISTENING, NULL);
	else if (is_word(word, "load"))
		load_begin(next_word(&rest));
	else if (is_word(word, "print"))
		load_print();
	else
		load_bytes(word);
}

/* Whether inferences can begin now; if not, it prints why. */
static bool is_inference_possible(void)
{
	const struct load *load = &device.input_load;

	if (device.state != MODEL_READY) {
		put_line("e-[No model]", NULL);
	} else if (device_is_listening()) {
		put_line(LISTENING, NULL);
	} else if (device.was_input_announced &&
		   (load->received != load->size || load->received != device.model.input_bytes)) {
		put("e-[Input has ");
		put_unsigned(load->received);
		put(" bytes, expected ");
		put_unsigned(device.model.input_bytes);
		put_line("]", NULL);
	} else {
		return true;
	}
	return false;
}

static void command_infer(char *rest)
{
	char *word = next_word(&rest), *second = word ? next_word(&rest) : NULL;
	int64_t count = word ? number_of(word) : 1, warmup = second ? number_of(second) : 10;

	if (count <= 0)
		put_line("e-[Inference iterations must be >0]", NULL);
	else if (warmup < 0)
		put_line("e-[Inference warmup must be >=0]", NULL);
	else if (is_inference_possible())
		infer((uint32_t)count, (uint32_t)warmup);
}

static void command_help(void)
{
	static const char *const TEXT[] = {
		VERSION, "",
		"name                the board",
		"timestamp           microseconds since the reset, or a pulse on the pin",
		"profile             the protocol and the model",
		"db load N           begin an input of N bytes",
		"db HEX              bytes of the input",
		"db print            the bytes that are loaded",
		"infer [N [W]]       N inferences (1) after W for warm-up (10)",
		"results             outputs of the last inference",
		"start, stop         listen to sound, with a model for that",
		"x-info x-crc x-out x-cycles x-profile x-detections x-mode x-state x-frames: see docs/firmware-protocol.md",
	};

	for (size_t i = 0; i < sizeof TEXT / sizeof *TEXT; i++)
		put_line(TEXT[i], NULL);
}

static void info(const char *key, const char *value) { put_line("m-info-", key, "-[", value, "]", NULL); }

static void info_number(const char *key, uint64_t value)
{
	put("m-info-");
	put(key);
	put("-[");
	put_unsigned(value);
	put_line("]", NULL);
}

static void info_word(const char *key, const char *prefix, uint32_t value)
{
	put("m-info-");
	put(key);
	put("-[");
	put(prefix);
	put_word_hex(value);
	put_line("]", NULL);
}

static void command_info(void)
{
	static const char *const ENCODINGS[] = {"int8", "uint8", "float32"};
	const struct blob_header *header = device.model.header;

	info("firmware", "edgebench");
	info("protocol", "1");
	info("board", port.board);
	info("cpu", port.cpu);
	info("kernels", KERNELS_NAME);
	if (port.is_untested)
		info("port", "untested");
	info("mode", mode_name());
	info_number("tick_hz", port.tick_hz);
	info("tick_source", port.tick_source);
	info_number("line_max", LINE_MAX_CHARACTERS);
	info_number("input_max", device.input_max);
	info_number("frame_max", FRAME_MAX_DATA);
	info_number("frame_window", FRAME_WINDOW);
	info_number("cycles_max", port.cycles_max);
	if (port.model_address)
		info_word("model_address", "0x", (uint32_t)port.model_address);
	info("model_place", port.is_model_linked ? "firmware" : "memory");
	info_number("model_max", port.model_max);
	info_number("ram_max", port.ram_max);
	if (port.code_bytes) {
		info_number("code_bytes", port.code_bytes);
		info_number("data_bytes", port.data_bytes);
	}
	if (port.stack_max) {
		info_number("stack_max", port.stack_max);
		info_number("stack_peak", port_stack_peak());
	}
	info("model_state", STATES[device.state]);
	if (device.state != MODEL_READY)
		return;
	info("model", header->id);
	info_number("model_bytes", header->bytes);
	info_word("model_crc", "", crc32(0, port.model, header->bytes));
	info_number("arena_bytes", header->arena_bytes);
	info_number("input_bytes", device.model.input_bytes);
	info("input_encoding", ENCODINGS[header->input_encoding]);
	info_number("output_bytes", device.model.output_bytes);
	info_number("operators", device.model.run_count);
	info("rounding", header->rounding == ROUNDING_TFLM ? "tflm" : "litert");
}

static void command_crc(char *rest)
{
	char *word = next_word(&rest);
	bool is_of_model = word && is_word(word, "model");
	const uint8_t *data = is_of_model ? port.model : device.input;
	uint32_t size = device.input_load.received;

	if (is_of_model && device.state != MODEL_READY) {
		put_line("e-[No model]", NULL);
		return;
	}
	if (is_of_model)
		size = device.model.header->bytes;
	put("m-crc-[");
	put_word_hex(crc32(0, data, size));
	put(",");
	put_unsigned(size);
	put_line("]", NULL);
}

static void command_out(void)
{
	if (!device.has_inferred) {
		put_line("e-[No inference]", NULL);
		return;
	}
	for (uint32_t i = 0, column = 0; i < device.model.header->output_count; i++) {
		const struct blob_tensor *output = model_output(&device.model, i);
		const uint8_t *data = model_data(&device.model, output);
		bool is_last = i + 1 == device.model.header->output_count;

		for (uint32_t j = 0; j < output->bytes; j++) {
			put(column == 0 ? "m-out-[" : "");
			put_hex(data + j, 1);
			column = column + 1 < OUT_BYTES_A_LINE ? column + 1 : 0;
			if (column == 0 || (is_last && j + 1 == output->bytes))
				put_line("]", NULL);
		}
	}
}

static void command_cycles(void)
{
	uint32_t total = device.cycles_total, kept = total < port.cycles_max ? total : port.cycles_max;
	uint32_t oldest = total > port.cycles_max ? total % port.cycles_max : 0;

	put("m-cycles-[");
	put_unsigned(port.tick_hz);
	put(",");
	put_unsigned(total);
	put(",");
	put_unsigned(kept);
	put_line("]", NULL);
	for (uint32_t i = 0; i < kept; i++) {
		put(i % CYCLES_A_LINE == 0 ? "m-cycle-[" : ",");
		put_unsigned(port.cycles[(oldest + i) % port.cycles_max]);
		if (i % CYCLES_A_LINE == CYCLES_A_LINE - 1 || i + 1 == kept)
			put_line("]", NULL);
	}
}

/* Without a number: the last profile again. */
static void command_profile(char *rest)
{
	char *word = next_word(&rest);
	int64_t count = word ? number_of(word) : 0;
	const char *name;

	if (word && count <= 0) {
		put_line("e-[Inference iterations must be >0]", NULL);
		return;
	}
	if (word) {
		if (!is_inference_possible())
			return;
		device.profile_count = 0;
		profile((uint32_t)count);
	}
	if (!device.profile_count) {
		if (!word)
			put_line("e-[No profile]", NULL);
		return;
	}
	put("m-operators-[");
	put_unsigned(port.tick_hz);
	put(",");
	put_unsigned(device.profile_count);
	put(",");
	put_unsigned(device.profile_overhead);
	put(",");
	put_unsigned(device.model.run_count);
	put_line("]", NULL);
	for (uint32_t index = 0, i = 0; (name = model_next_name(&device.model, &index)); i++) {
		put("m-operator-[");
		put(name);
		put(",");
		put_unsigned(port.cycles[i]);
		put_line("]", NULL);
	}
}

static void put_refused(const char *text, char *word)
{
	if (strlen(word) > MAX_SHOWN)
		word[MAX_SHOWN] = 0;
	put_line("e-[", text, ": ", word, "]", NULL);
}

static void command_mode(char *rest)
{
	char *word = next_word(&rest);

	if (word && port.is_without_pin && is_word(word, "energy")) {
		put_line("e-[No timestamp pin]", NULL);
		return;
	}
	if (word && is_word(word, "energy"))
		set_mode(MODE_ENERGY);
	else if (word && is_word(word, "performance"))
		set_mode(MODE_PERFORMANCE);
	else if (word && is_word(word, "streaming"))
		set_mode(MODE_STREAMING);
	else if (word) {
		put_refused("Unknown mode", word);
		return;
	}
	put_line("m-timestamp-mode-", mode_name(), NULL);
}

/* Whether the variables of a model stay when an input begins. */
static void command_state(char *rest)
{
	char *word = next_word(&rest);
	bool is_kept = word && is_word(word, "keep");

	if (word && !is_kept && !is_word(word, "reset")) {
		put_refused("Unknown state", word);
		return;
	}
	if (word && device_is_listening()) {
		put_line(LISTENING, NULL);
		return;
	}
	if (word)
		device.is_state_kept = is_kept;
	if (word && !is_kept && device.state == MODEL_READY)
		model_reset(&device.model);
	put_line("m-state-[", device.is_state_kept ? "keep" : "reset", "]", NULL);
}

static void command_frames(void)
{
	if (device_is_listening()) {
		put_line(LISTENING, NULL);
		return;
	}
	put("m-frames-[");
	put_unsigned(FRAME_MAX_DATA);
	put(",");
	put_unsigned(FRAME_WINDOW);
	put_line("]", NULL);
	device.is_frame_mode = true;
}

/* Commands of both dialects; false: not such a command. */
bool command_shared(const char *word, char *rest)
{
	if (is_word(word, "name"))
		put_line("m-name-dut-[edgebench-", port.board, "]", NULL);
	else if (is_word(word, "timestamp"))
		timestamp_print();
	else if (is_word(word, "profile"))
		put_line("m-profile-[" VERSION "]\r\nm-model-[",
			 device.state == MODEL_READY ? device.model.header->id : "none", "]", NULL);
	else if (is_word(word, "x-info"))
		command_info();
	else if (is_word(word, "x-crc"))
		command_crc(rest);
	else if (is_word(word, "x-out"))
		command_out();
	else if (is_word(word, "x-cycles"))
		command_cycles();
	else if (is_word(word, "x-profile"))
		command_profile(rest);
	else if (is_word(word, "x-detections"))
		wake_detections();
	else if (is_word(word, "x-mode"))
		command_mode(rest);
	else if (is_word(word, "x-state"))
		command_state(rest);
	else if (is_word(word, "x-frames"))
		command_frames();
	else
		return false;
	return true;
}

void command_execute(char *line)
{
	char *rest = line, *word = next_word(&rest);

	if (!word)
		put_line("e-[Empty command]", NULL);
	else if (command_shared(word, rest))
		;
	else if (is_word(word, "help"))
		command_help();
	else if (is_word(word, "db"))
		command_db(rest);
	else if (is_word(word, "infer"))
		command_infer(rest);
	else if (is_word(word, "results"))
		results_print();
	else if (device.wake && is_word(word, "start"))
		wake_start();
	else if (device.wake && is_word(word, "stop"))
		wake_stop();
	else
		put_refused("Unknown command", word);
}
