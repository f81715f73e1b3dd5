/* From the reset to the main loop, for all boards with a Cortex-M. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "device/port.h"
#include "ports/bare_metal/stack.h"
#include "ports/cortex_m/cortex_m.h"

/* Armv7-M Architecture Reference Manual (Arm DDI 0403E), B3.2 and B3.4. */
#define VECTOR_TABLE REGISTER(0xe000ed08u)
#define RESET_CONTROL REGISTER(0xe000ed0cu) /* AIRCR */
#define RESET_REQUEST (0x05fau << 16 | BIT(2))
#define FAULT_HANDLERS REGISTER(0xe000ed24u) /* SHCSR: of memory, bus and usage */
#define FAULT_HANDLERS_ENABLE (7u << 16)
#define COPROCESSORS REGISTER(0xe000ed88u)
#define INTERRUPT_ENABLE(number) REGISTER(0xe000e100u + 4u * ((number) / 32))
#define INTERRUPT_DISABLE(number) REGISTER(0xe000e180u + 4u * ((number) / 32))
#define INTERRUPT_CLEAR(number) REGISTER(0xe000e280u + 4u * ((number) / 32)) /* what is pending */
/* Memory protection unit of Armv7-M: B3.5. */
#define MPU_CONTROL REGISTER(0xe000ed94u)
#define MPU_BASE REGISTER(0xe000ed9cu)
#define MPU_SIZE REGISTER(0xe000eda0u)
#define MPU_ENABLE (BIT(0) | BIT(2)) /* all other addresses as without it */
#define MPU_VALID BIT(4)
#define MPU_NO_ACCESS_256 (BIT(28) | 7u << 1 | BIT(0))
#define RECEIVED_MAX 4096u /* bytes; a power of two, and more than two frames */
#define CYCLES_MAX 4096u

extern uint32_t data_from[], data_start[], data_end[], bss_start[], bss_end[];
extern uint8_t stack_top[];
extern uint8_t model_start[], model_size[], arena_start[], arena_size[];
extern const uint32_t is_model_linked; /* not an address: a compiler assumes that those are not 0 */

static volatile uint8_t received[RECEIVED_MAX];
static volatile uint32_t received_count;
static uint32_t taken_count;
static uint32_t cycles[CYCLES_MAX];
static bool has_line; /* its UART has a clock */

struct port port;

/* Bytes without space in the buffer are lost, as on a line without flow control. */
void keep_received(uint8_t byte)
{
	if (received_count - taken_count < RECEIVED_MAX)
		received[received_count++ % RECEIVED_MAX] = byte;
}

/* No board has these pins yet. */
void port_processing(bool is_high) { (void)is_high; }
void port_detection(void) {}

void port_paint_stack(void) { paint_stack(); }
size_t port_stack_peak(void) { return stack_peak(); }

/* The next byte; waits until it arrives. */
static uint8_t take(void)
{
	__asm__ volatile("cpsid i" ::: "memory");
	while (received_count == taken_count)
		__asm__ volatile(WAIT "\n\tcpsie i\n\tisb\n\tcpsid i" ::: "memory");
	uint8_t byte = received[taken_count++ % RECEIVED_MAX];

	__asm__ volatile("cpsie i" ::: "memory");
	return byte;
}

/* A stack that grows too far ends in a fault, not in the variables below it. Armv6-M has no handler that could
 * start on a full stack. */
static void guard_stack(void)
{
#if __ARM_ARCH >= 8
	extern uint8_t stack_bottom[];

	__asm__ volatile("msr msplim, %0" ::"r"(stack_bottom));
#elif __ARM_ARCH >= 7
	extern uint8_t stack_guard[];

	MPU_BASE = (uintptr_t)stack_guard | MPU_VALID;
	MPU_SIZE = MPU_NO_ACCESS_256;
	MPU_CONTROL = MPU_ENABLE;
#endif
#if __ARM_ARCH >= 7
	FAULT_HANDLERS = FAULT_HANDLERS_ENABLE;
	__asm__ volatile("dsb\n\tisb");
#endif
}

static void main_loop(void)
{
	guard_stack();
	port = (struct port){
		.board = BOARD, .cpu = CPU, .tick_source = TICK_SOURCE, .tick_hz = CLOCK_HZ,
		.is_untested = IS_UNTESTED,
		.model = model_start, .model_max = (size_t)model_size, .model_address = (uintptr_t)model_start,
		.is_model_linked = is_model_linked != 0,
		.ram = arena_start, .ram_max = (size_t)arena_size,
		.code_bytes = (size_t)code_size, .data_bytes = (size_t)data_size,
		.stack_max = stack_size(),
		.cycles = cycles, .cycles_max = CYCLES_MAX,
	};
	board_start();
	has_line = true;
	counter_start();
	INTERRUPT_ENABLE(RECEIVE_INTERRUPT) = BIT(RECEIVE_INTERRUPT % 32);
	__asm__ volatile("cpsie i");
	device_reset(STARTS_IN_ENERGY_MODE ? MODE_ENERGY : MODE_PERFORMANCE);
	for (;;) {
		/* It does not wait for an interrupt: an audio frame that is due raises none. */
		if (device_is_listening() && received_count == taken_count)
			device_listen();
		else
			device_receive(take());
	}
}

typedef void (*handler)(void);
static const handler VECTORS[16 + EXTERNAL_INTERRUPTS];

void __attribute__((noreturn)) reset_handler(void)
{
	/* Whole words: RAM that checks itself reads the rest of a word that a byte is written into. */
	for (uint32_t *to = data_start, *from = data_from; to < data_end;)
		*to++ = *from++;
	for (uint32_t *to = bss_start; to < bss_end;)
		*to++ = 0;
#if __ARM_ARCH >= 7
	COPROCESSORS |= 0xfu << 20; /* floating point and vectors */
#endif
	for (uint32_t number = 0; number < EXTERNAL_INTERRUPTS; number += 32) { /* a bootloader may have left some */
		INTERRUPT_DISABLE(number) = ~0u;
		INTERRUPT_CLEAR(number) = ~0u;
	}
	VECTOR_TABLE = (uintptr_t)VECTORS;
	__asm__ volatile("dsb\n\tisb");
	main_loop();
	for (;;)
		;
}

/* A fault: print its name, and start again. A host that waits for a reply sees the banner of a restart. A UART
 * without a clock would never be ready. */
static void __attribute__((used, noreturn)) restart(void)
{
	static const char TEXT[] = "\r\ne-[Fault]\r\n";

	if (has_line)
		port_write(TEXT, sizeof TEXT - 1);
	__asm__ volatile("dsb");
	RESET_CONTROL = RESET_REQUEST;
	for (;;)
		;
}

/* The stack may be full. */
static void __attribute__((naked)) fault_handler(void)
{
	__asm__ volatile("ldr r0, =stack_top\n\tmov sp, r0\n\tbl restart");
}

#pragma GCC diagnostic ignored "-Woverride-init" /* one of the ranges below */
static const handler VECTORS[16 + EXTERNAL_INTERRUPTS] __attribute__((section(".vectors"), used, aligned(512))) = {
	[0] = (handler)(uintptr_t)stack_top,
	[1] = (handler)reset_handler,
	[2 ... 14] = fault_handler,
	[15] = systick_handler,
	[16 ... 16 + EXTERNAL_INTERRUPTS - 1] = fault_handler,
	[16 + RECEIVE_INTERRUPT] = receive_handler,
};
