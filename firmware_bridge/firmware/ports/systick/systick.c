/* SysTick as the counter, for processors without a cycle counter: Cortex-M0+, and all that QEMU
 * emulates. It runs at the clock of the processor. */
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

#define INTERRUPT_STATE REGISTER(0xe000ed04u) /* ICSR: Armv7-M Architecture Reference Manual, B3.2.4 */
#define SYSTICK_PENDING BIT(26)

static uint64_t ticks_before; /* when the counter was last started */
static volatile uint32_t overflow_count;

uint64_t port_ticks(void)
{
	uint32_t overflows, value;

	/* An overflow that is not counted yet may be before or after the value that was read: read it again. */
	__asm__ volatile("cpsid i" ::: "memory");
	value = SYSTICK_VALUE;
	overflows = overflow_count;
	if (INTERRUPT_STATE & SYSTICK_PENDING) {
		value = SYSTICK_VALUE;
		overflows++;
	}
	__asm__ volatile("cpsie i" ::: "memory");
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
