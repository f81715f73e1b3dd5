/* The dialect of MLPerf Tiny's streaming wake-word firmware: docs/firmware-protocol.md.
 * Source: mlcommons/tiny, benchmark/reference_submissions/streaming_wakeword (sww_ref_util.c:
 * process_command, load_or_print_buff). */
#include <string.h>

#include "device/device.h"
#include "device/port.h"
#include "device/text.h"
#include "device/words.h"

#define VALUES_A_LINE 16u

static void load_begin(const char *word)
{
	int64_t size = word ? number_of(word) : 0;

	if (size <= 0) {
		put_line("Error: Transfer size (", word ? word : "", ") must be valid int; greater than 0.", NULL);
		put_line("Usage: 'db load N'; N>0", NULL);
		device.input_load.is_open = false;
		return;
	}
	const char *problem = begin_input((uint32_t)size);

	put(problem ? "Error: " : "Expecting ");
	put(problem ? problem : "");
	put(problem ? " " : "");
	put_unsigned((uint64_t)size);
	if (problem) {
		put(" exceeds maximum of ");
		put_unsigned(device.input_max);
		put_line("", NULL);
	} else {
		put_line(" bytes", NULL);
	}
}

static void load_bytes(const char *hex)
{
	struct load *load = &device.input_load;
	size_t length = strlen(hex);

	if (!load->is_open || load->received == load->size) {
		put_line("Error: Must issue db load <Nbytes> command before transmitting data.", NULL);
		return;
	}
	if (length % 2) {
		put("Error: number of hex digits in data string must be even. Received ");
		put_unsigned(length);
		put_line("\r\nStill waiting for data", NULL);
		return;
	}
	for (size_t i = 0; i < length; i += 2) {
		int high = digit_of(hex[i]), low = digit_of(hex[i + 1]);

		if (high < 0 || low < 0) {
			char pair[3] = {hex[i], hex[i + 1], 0};

			put("Error: Received non-hex digit in character pair '");
			put(pair);
			put("' at location ");
			put_unsigned(i + 2);
			put_line("\r\nCanceling segment upload. Still waiting for data", NULL);
			return;
		}
		device.input[load->received++] = (uint8_t)(high << 4 | low);
		if (load->received == load->size) {
			put_line("m-load-done", NULL);
			return;
		}
	}
	put_unsigned(load->received);
	put_line(" bytes received", NULL);
}

static void load_pointer(const char *word)
{
	struct load *load = &device.input_load;
	int64_t at = word ? number_of(word) : -1;

	if (!word)
		put_line("Error: setptr requires a numeric argument: 'db setptr 123%'", NULL);
	else if (at < 0 || at > load->size)
		put_line("Error: setptr: ", word, " is not within what db load announced", NULL);
	else
		load->received = (uint32_t)at;
}

/* The requested number, or all. */
static uint32_t count_of(const char *word, uint32_t available)
{
	int64_t count = word ? number_of(word) : 0;

	return count <= 0 || count > available ? available : (uint32_t)count;
}

static void load_print(const char *word)
{
	uint32_t count = count_of(word, device.input_load.size);

	put("m-buffer-");
	for (uint32_t i = 0; i < count; i++) {
		put(i ? "-" : "");
		put_hex(device.input + i, 1);
	}
	put_line("", NULL);
}

static void load_print_samples(const char *word)
{
	uint32_t count = count_of(word, device.input_load.size / 2);

	put("[");
	for (uint32_t i = 0; i < count; i++) {
		int16_t sample;

		memcpy(&sample, device.input + 2 * i, sizeof sample);
		put_signed(sample);
		put(i + 1 < count ? ", " : "  ");
		if (i % VALUES_A_LINE == VALUES_A_LINE - 1 || i + 1 == count)
			put_line("", NULL);
	}
	put_line("]", NULL);
}

static void command_db(char *rest)
{
	char *word = next_word(&rest);

	if (!word)
		put_line("Error: db requires a sub-command: 'db load <Nbytes>'; 'db print [Nbytes]', 'db <hexstring>'",
			 NULL);
	else if (device_is_listening())
		put_line("Error: Listening: stop first", NULL);
	else if (is_word(word, "load"))
		load_begin(next_word(&rest));
	else if (digit_of(word[0]) >= 0)
		load_bytes(word);
	else if (is_word(word, "getptr")) {
		put("m-buff-ptr-");
		put_unsigned(device.input_load.received);
		put_line("", NULL);
	} else if (is_word(word, "setptr"))
		load_pointer(next_word(&rest));
	else if (is_word(word, "print"))
		load_print(next_word(&rest));
	else if (is_word(word, "print_i16"))
		load_print_samples(next_word(&rest));
	else
		put_line("Error: db: Unrecognized sub-command ", word, NULL);
}

static void command_help(void)
{
	static const char *const TEXT[] = {
		"name                 -- the board",
		"profile              -- the protocol and the model",
		"start                -- listen to sound: a model runs on each 32 ms of it",
		"stop                 -- end that, and print the activation of each audio frame",
		"state                -- whether it listens, and samples that it heard",
		"db load N, db HEX    -- load N bytes",
		"db print [N], db print_i16 [N], db getptr, db setptr N",
		"extract_uart_stream  -- features and outputs of the 512 samples that are loaded",
		"timestamp            -- a pulse on the pin; proc_hi, proc_lo: the processing pin",
		"x-info x-crc x-out x-cycles x-profile x-detections x-mode x-state x-frames: see docs/firmware-protocol.md",
	};

	for (size_t i = 0; i < sizeof TEXT / sizeof *TEXT; i++)
		put_line(TEXT[i], NULL);
}

/* Commands of the reference for its specific data and hardware. */
static bool is_left_out(const char *word)
{
	static const char *const WORDS[] = {"run_model", "extract", "i2scap", "log", "infer_wav"};

	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (is_word(word, WORDS[i]))
			return true;
	return false;
}

void streaming_execute(char *line)
{
	char *rest = line, *word;

	put_line("Received command: ", line, NULL);
	word = next_word(&rest);
	if (!word)
		put_line("Empty command (only a % read).  Type 'help%' for help", NULL);
	else if (command_shared(word, rest))
		;
	else if (is_word(word, "start"))
		wake_start();
	else if (is_word(word, "stop"))
		wake_stop();
	else if (is_word(word, "state"))
		wake_state();
	else if (is_word(word, "db"))
		command_db(rest);
	else if (is_word(word, "help"))
		command_help();
	else if (is_word(word, "extract_uart_stream"))
		device_is_listening() ? put_line("Error: Listening: stop first", NULL) : wake_extract();
	else if (is_word(word, "proc_hi") || is_word(word, "proc_lo"))
		port_processing(is_word(word, "proc_hi"));
	else if (is_left_out(word))
		put_line("Error: ", word, ": this firmware has no I2S input and no data to test with", NULL);
	else
		put_line("Unrecognized command ", word, NULL);
}
