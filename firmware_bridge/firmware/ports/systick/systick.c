/* SysTick as the counter, for boards that QEMU emulates: it runs at the clock of the processor, and QEMU
 * has no cycle counter. */
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

static uint64_t ticks_before; /* when the counter was last started */
static volatile uint32_t overflow_count;

uint64_t port_ticks(void)
{
	uint32_t overflows, value;

	do {
		overflows = overflow_count;
		value = SYSTICK_VALUE;
	} while (overflows != overflow_count);
	return ticks_before + (uint64_t)overflows * SYSTICK_PERIOD + (SYSTICK_PERIOD - 1 - value);
}

uint64_t port_microseconds(void) { return port_ticks() / (CLOCK_HZ / 1000000u); }

void systick_handler(void) { overflow_count++; }

/* It is 0 until it is loaded, which is not an overflow. */
void counter_start(void)
{
	SYSTICK_RELOAD = SYSTICK_PERIOD - 1;
	SYSTICK_VALUE = 0;
	SYSTICK_CONTROL = SYSTICK_RUNS;
	while (SYSTICK_VALUE == 0)
		;
	overflow_count = 0;
}

/* Every window begins at the same phase of the counter, so that its overflows occur in the same
 * inferences in every repetition. */
void port_begin_window(void)
{
	ticks_before = port_ticks();
	counter_start();
}
