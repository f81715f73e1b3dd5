/* What a submission adds to benchmark/api of MLPerf Tiny: a board on standard input and output.
 *
 * Its clock is that of support/board_double.py: 1 ms at its start, 1.5 ms for an inference. */
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "api/submitter_implemented.h"

#include "api/internally_implemented.h"

static unsigned long time_us = 1000;

void th_printf(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	fflush(stdout);
}

void th_timestamp(void)
{
#if EE_CFG_ENERGY_MODE != 1
	th_printf(EE_MSG_TIMESTAMP, time_us);
#endif
}

void th_timestamp_initialize(void)
{
	th_printf(EE_MSG_TIMESTAMP_MODE);
	th_timestamp();
}

void th_infer() { time_us += 1500; }
void th_results() { th_printf("m-results-[0.000,0.125,0.875]\r\n"); }
void th_load_tensor() {}
void th_pre() {}
void th_post() {}
void th_serialport_initialize(void) {}
void th_final_initialize(void) {}
void th_command_ready(char volatile *command) { ee_serial_command_parser_callback((char *)command); }
size_t th_strnlen(const char *text, size_t limit) { return strnlen(text, limit); }

int main()
{
	ee_benchmark_initialize();
	for (int character; (character = getchar()) != EOF;)
		ee_serial_callback((char)character);
}
