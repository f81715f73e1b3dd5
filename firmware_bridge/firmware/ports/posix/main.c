/* The firmware as a process: its serial line is a pseudo-terminal, or standard input and output. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "device/device.h"
#include "device/port.h"

#define TICK_NS 10u
#define POLL_MS 10
#define LISTEN_MS 1
#define OPEN_DELAY_MS 100 /* a host that opens a terminal discards its input */

static const char USAGE[] =
	"usage: edgebench-posix [--model BLOB] [--energy] [--pin FILE] [--stdio] [--link PATH]\n"
	"                       [--reset-on-open] [--baud N] [--board NAME] [--ram BYTES] [--model-max BYTES]\n"
	"                       [--inference-us N] [--streaming] [--sound FILE] [--edges FILE]\n"
	"Prints the path of its pseudo-terminal, and is an MLPerf Tiny device on it: docs/firmware.md.\n";

static _Alignas(16) uint8_t model_memory[8u << 20];
static _Alignas(16) uint8_t ram[16u << 20];
static uint32_t cycles[4096];
static struct utsname machine;
static int line_in, line_out, pin = -1, edges = -1, sound = -1;
static off_t sound_begin, sound_end; /* samples in a file; the end is 0 if they end with the file, or in a FIFO */
static bool is_pty = true;
static uint64_t byte_ns; /* time of a byte on the emulated line, 0 for none */
static uint64_t free_in_ns, free_out_ns;

struct port port = {
	.board = "posix",
	.tick_hz = 1000000000u / TICK_NS,
	.tick_source = "monotonic",
	.model = model_memory,
	.model_max = sizeof model_memory,
	.ram = ram,
	.ram_max = sizeof ram,
	.cycles = cycles,
	.cycles_max = sizeof cycles / sizeof *cycles,
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t started_ns;
static uint64_t inference_ns; /* minimum duration of an inference in a window, 0 for none */
static uint64_t inference_end_ns;

static void sleep_until(uint64_t at_ns)
{
	struct timespec at = {(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* A process has no limits that a linker knows. */
void port_paint_stack(void) {}
size_t port_stack_peak(void) { return 0; }
void port_begin_window(void) { inference_end_ns = 0; }
uint64_t port_microseconds(void) { return (now_ns() - started_ns) / 1000u; }

/* Called when a window begins, and after each of its inferences: a slower board would end them later. */
uint64_t port_ticks(void)
{
	if (inference_ns) {
		inference_end_ns = inference_end_ns ? inference_end_ns + inference_ns : now_ns();
		sleep_until(inference_end_ns);
	}
	return (now_ns() - started_ns) / TICK_NS;
}

/* A falling edge is a line with the time of CLOCK_MONOTONIC in nanoseconds. */
void port_pulse(void)
{
	char line[32];
	uint64_t at = now_ns();

	if (pin >= 0) {
		int size = snprintf(line, sizeof line, "%llu\n", (unsigned long long)at);

		if (write(pin, line, (size_t)size) < 0 && errno != EAGAIN)
			pin = -1; /* the reader has closed it */
	}
	while (now_ns() - at < 2000)
		;
}

/* An edge is a line with the name of the pin, its level, and the time. */
static void write_edge(const char *name, bool is_high)
{
	char line[48];
	int size = snprintf(line, sizeof line, "%s %d %llu\n", name, is_high, (unsigned long long)now_ns());

	if (edges >= 0 && write(edges, line, (size_t)size) < 0 && errno != EAGAIN)
		edges = -1;
}

void port_processing(bool is_high) { write_edge("processing", is_high); }
void port_detection(void) { write_edge("detection", false); }

/* A file is played from its beginning at each start, a FIFO continues. */
static size_t read_sound(int16_t *samples, size_t count)
{
	static uint8_t bytes[2];
	static size_t odd; /* bytes of a sample that arrived in two parts */
	size_t done = 0;

	if (count == 0) {
		odd = 0;
		lseek(sound, sound_begin, SEEK_SET);
		return 0;
	}
	while (done < count) {
		if (sound_end && lseek(sound, 0, SEEK_CUR) >= sound_end)
			break;
		ssize_t got = read(sound, bytes + odd, sizeof bytes - odd);

		if (got <= 0)
			break;
		odd += (size_t)got;
		if (odd < sizeof bytes)
			continue;
		samples[done++] = (int16_t)(bytes[0] | bytes[1] << 8);
		odd = 0;
	}
	return done;
}

static uint32_t little_endian(const uint8_t *bytes, int count)
{
	uint32_t value = 0;

	while (count--)
		value = value << 8 | bytes[count];
	return value;
}

static void require_sound(const char *path, const char *what, uint32_t value, uint32_t needed)
{
	if (value == needed)
		return;
	fprintf(stderr, "error: %s has %s %u, the model needs %u; convert it: sox IN -r 16000 -c 1 -b 16 OUT.wav\n", path,
		what, value, needed);
	exit(2);
}

/* The places of the samples in a WAV file; other files are samples from their beginning on. Source: Multimedia
 * Programming Interface and Data Specifications 1.0 (IBM and Microsoft, 1991), RIFF and WAVE. */
static void find_samples(const char *path)
{
	uint8_t chunk[16];
	off_t at = 12;
	bool has_format = false;

	if (pread(sound, chunk, 12, 0) != 12 || memcmp(chunk, "RIFF", 4) || memcmp(chunk + 8, "WAVE", 4))
		return;
	while (pread(sound, chunk, 8, at) == 8) {
		uint32_t size = little_endian(chunk + 4, 4);

		at += 8;
		if (!memcmp(chunk, "data", 4) && has_format) {
			sound_begin = at;
			sound_end = at + size;
			return;
		}
		if (!memcmp(chunk, "fmt ", 4) && pread(sound, chunk, 16, at) == 16) {
			require_sound(path, "format", little_endian(chunk, 2), 1);
			require_sound(path, "channels", little_endian(chunk + 2, 2), 1);
			require_sound(path, "Hz", little_endian(chunk + 4, 4), 16000);
			require_sound(path, "bits", little_endian(chunk + 14, 2), 16);
			has_format = true;
		}
		at += size + size % 2;
	}
	fprintf(stderr, "error: %s is a WAV file without samples\n", path);
	exit(2);
}

static void open_sound(const char *path)
{
	/* Also for writing, so that a FIFO does not end without a writer. */
	struct stat status;
	bool is_fifo = stat(path, &status) == 0 && S_ISFIFO(status.st_mode);

	sound = open(path, (is_fifo ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY);
	if (sound < 0) {
		fprintf(stderr, "error: cannot open %s: %s\n", path, strerror(errno));
		exit(2);
	}
	if (!is_fifo)
		find_samples(path);
	port.read_sound = read_sound;
}

static void pause_ms(int milliseconds) { poll(NULL, 0, milliseconds); }

static void rest(uint64_t *free_ns)
{
	uint64_t now = now_ns();

	if (*free_ns < now)
		*free_ns = now;
}

/* A line without pending bytes was idle until now; otherwise it continues from its last time, even if
 * this process is scheduled late. */
static void look_for_rest(void)
{
	struct pollfd line = {.fd = line_in, .events = POLLIN};

	if (byte_ns && poll(&line, 1, 0) == 0)
		rest(&free_in_ns);
}

/* Delay the bytes as on a real line. */
static void pace(uint64_t *free_ns, size_t count)
{
	if (!byte_ns)
		return;
	*free_ns += count * byte_ns;
	sleep_until(*free_ns);
}

void port_write(const char *data, size_t size)
{
	/* Here as well: the host may reply before this process is scheduled again. */
	look_for_rest();
	rest(&free_out_ns);
	pace(&free_out_ns, size);
	while (size) {
		ssize_t done = write(line_out, data, size);

		if (done < 0 && errno == EAGAIN) {
			struct pollfd ready = {.fd = line_out, .events = POLLOUT};

			poll(&ready, 1, POLL_MS);
			if (ready.revents & POLLHUP)
				return; /* a line without a reader */
			continue;
		}
		if (done <= 0)
			return;
		data += done;
		size -= (size_t)done;
	}
}

static void read_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file) {
		fprintf(stderr, "error: cannot open %s: %s\n", path, strerror(errno));
		exit(2);
	}
	size = fread(model_memory, 1, sizeof model_memory, file);
	if (size == sizeof model_memory || size > port.model_max) {
		fprintf(stderr, "error: %s has more than %zu bytes\n", path, port.model_max);
		exit(2);
	}
	fclose(file);
}

static char terminal[128]; /* path of its other end */

static void open_terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), slave;
	struct termios raw;

	if (master < 0 || grantpt(master) || unlockpt(master) || ptsname_r(master, terminal, sizeof terminal)) {
		fprintf(stderr, "error: no pseudo-terminal: %s\n", strerror(errno));
		exit(1);
	}
	slave = open(terminal, O_RDWR | O_NOCTTY);
	if (slave >= 0 && tcgetattr(slave, &raw) == 0) {
		cfmakeraw(&raw);
		tcsetattr(slave, TCSANOW, &raw);
	}
	close(slave);
	line_in = line_out = master;
}

static void announce_terminal(const char *link)
{
	if (link) {
		unlink(link);
		if (symlink(terminal, link)) {
			fprintf(stderr, "error: cannot link %s: %s\n", link, strerror(errno));
			exit(1);
		}
	}
	printf("%s\n", terminal);
	fflush(stdout);
}

static size_t number_option(const char *text, size_t largest)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || value == 0 || value > largest) {
		fprintf(stderr, "error: %s: a number from 1 to %zu is needed\n", text, largest);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option OPTIONS[] = {
		{"model", required_argument, 0, 'm'}, {"energy", no_argument, 0, 'e'},
		{"pin", required_argument, 0, 'p'}, {"stdio", no_argument, 0, 's'},
		{"link", required_argument, 0, 'l'}, {"reset-on-open", no_argument, 0, 'r'},
		{"baud", required_argument, 0, 'b'}, {"board", required_argument, 0, 'n'},
		{"ram", required_argument, 0, 'a'}, {"model-max", required_argument, 0, 'x'},
		{"inference-us", required_argument, 0, 'i'}, {"streaming", no_argument, 0, 'w'},
		{"sound", required_argument, 0, 'f'}, {"edges", required_argument, 0, 'd'},
		{0, 0, 0, 0},
	};
	enum device_mode mode = MODE_PERFORMANCE;
	bool resets_on_open = false, was_open;
	const char *link = NULL, *model = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) >= 0) {
		switch (option) {
		case 'm': model = optarg; break;
		case 'e': mode = MODE_ENERGY; break;
		case 'w': mode = MODE_STREAMING; break;
		case 'f': open_sound(optarg); break;
		case 'd': edges = open(optarg, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY, 0600); break;
		case 'p': pin = open(optarg, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY, 0600); break;
		case 's': is_pty = false; break;
		case 'l': link = optarg; break;
		case 'r': resets_on_open = true; break;
		case 'b': byte_ns = 10000000000u / number_option(optarg, 10000000); break;
		case 'n': port.board = optarg; break;
		case 'a': port.ram_max = number_option(optarg, sizeof ram) & ~(size_t)15; break;
		case 'i': inference_ns = 1000u * number_option(optarg, 10000000); break;
		case 'x': port.model_max = number_option(optarg, sizeof model_memory) & ~(size_t)15; break;
		default: fputs(USAGE, stderr); return 2;
		}
	}
	if (model)
		read_file(model);
	signal(SIGPIPE, SIG_IGN);
	uname(&machine);
	port.cpu = machine.machine;
	if (is_pty)
		open_terminal();
	else
		line_out = 1;
	free_in_ns = started_ns = now_ns();
	/* A board with its own supply prints at its start, with or without a reader. */
	was_open = !is_pty;
	if (!resets_on_open || !is_pty)
		device_reset(mode);
	/* A host that opens it discards its input first; later output counts as a reply. */
	if (is_pty)
		announce_terminal(link);
	for (;;) {
		uint8_t bytes[256];
		ssize_t count;
		struct pollfd line = {.fd = line_in, .events = POLLIN};

		device_listen();
		look_for_rest();
		poll(&line, 1, 0);
		if (is_pty && line.revents & POLLHUP && !(line.revents & POLLIN)) {
			was_open = false;
			pause_ms(device_is_listening() ? LISTEN_MS : POLL_MS);
			continue;
		}
		if (!was_open && resets_on_open) {
			pause_ms(OPEN_DELAY_MS);
			started_ns = now_ns();
			device_reset(mode);
		}
		if (!was_open)
			rest(&free_in_ns);
		was_open = true;
		if (poll(&line, 1, device_is_listening() ? LISTEN_MS : -1) == 0)
			continue;
		count = read(line_in, bytes, sizeof bytes);
		if (count == 0 || (count < 0 && errno != EAGAIN && errno != EIO && errno != EINTR))
			return 0;
		if (count > 0)
			pace(&free_in_ns, (size_t)count);
		for (ssize_t i = 0; i < count; i++)
			device_receive(bytes[i]);
	}
}
