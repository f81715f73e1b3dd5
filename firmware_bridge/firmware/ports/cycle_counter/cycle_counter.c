/* The processor's own cycle counter, CYCCNT of its Data Watchpoint and Trace unit: Armv7-M
 * Architecture Reference Manual (Arm DDI 0403E), C1.8; the same in Armv8-M (Arm DDI 0553, B15).
 *
 * It has 32 bits, and SysTick interrupts it often enough to widen it to 64. It may stop while
 * the processor sleeps, so these boards do not sleep. */
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

#define DEBUG_CONTROL REGISTER(0xe000edfcu) /* DEMCR */
#define TRACE_ENABLE BIT(24)
#define DWT_LOCK REGISTER(0xe0001fb0u) /* of a Cortex-M7 without a debugger; others have none */
#define DWT_UNLOCK 0xc5acce55u
#define DWT_CONTROL REGISTER(0xe0001000u)
#define CYCLE_COUNTER_ENABLE BIT(0)
#define CYCLE_COUNTER REGISTER(0xe0001004u)

static uint64_t ticks;

uint64_t port_ticks(void)
{
	__asm__ volatile("cpsid i" ::: "memory");
	ticks += CYCLE_COUNTER - (uint32_t)ticks;
	uint64_t now = ticks;

	__asm__ volatile("cpsie i" ::: "memory");
	return now;
}

uint64_t port_microseconds(void) { return port_ticks() / (CLOCK_HZ / 1000000u); }

void systick_handler(void) { port_ticks(); }

void counter_start(void)
{
	DEBUG_CONTROL |= TRACE_ENABLE;
	DWT_LOCK = DWT_UNLOCK;
	CYCLE_COUNTER = 0;
	DWT_CONTROL |= CYCLE_COUNTER_ENABLE;
	SYSTICK_RELOAD = SYSTICK_PERIOD - 1;
	SYSTICK_VALUE = 0;
	SYSTICK_CONTROL = SYSTICK_RUNS;
}

/* It needs no phase: an overflow has no cost. */
void port_begin_window(void) {}
