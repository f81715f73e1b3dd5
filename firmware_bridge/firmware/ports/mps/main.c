/* Boards of Arm's MPS2 and MPS3 series, above all as QEMU emulates them.
 *
 * Serial line: CMSDK UART 0 (Arm DDI 0479, 4.3). Timestamp pin: UART 1, which writes a line with
 * the value of the counter, as an emulated board has no pins. Counter: SysTick, which runs at the
 * clock of the processor (Arm DDI 0403, B3.3). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "device/port.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

#if defined(MPS3_AN547)
#define UART_0 0x49303000u
#define UART_1 0x49304000u
#define UART_0_RECEIVED 33
#define CLOCK_HZ 32000000u
#else
#define UART_0 0x40004000u
#define UART_1 0x40005000u
#define UART_0_RECEIVED 0
#define CLOCK_HZ 25000000u
#endif

#if defined(MPS2_AN385)
#define BOARD "mps2-an385"
#define CPU "cortex-m3"
#elif defined(MPS2_AN386)
#define BOARD "mps2-an386"
#define CPU "cortex-m4"
#elif defined(MPS2_AN500)
#define BOARD "mps2-an500"
#define CPU "cortex-m7"
#else
#define BOARD "mps3-an547"
#define CPU "cortex-m55"
#endif

enum { UART_DATA = 0x0, UART_STATE = 0x4, UART_CONTROL = 0x8, UART_INTERRUPT = 0xc, UART_DIVIDER = 0x10 };
enum { TX_FULL = 1, RX_FULL = 2, TX_ENABLE = 1, RX_ENABLE = 2, RX_INTERRUPT = 8, RX_INTERRUPTED = 2 };
#define SYSTICK_CONTROL REGISTER(0xe000e010u)
#define SYSTICK_RELOAD REGISTER(0xe000e014u)
#define SYSTICK_VALUE REGISTER(0xe000e018u)
#define SYSTICK_PERIOD 0x1000000u
#define INTERRUPT_ENABLE(number) REGISTER(0xe000e100u + 4u * ((number) / 32))
#define COPROCESSORS REGISTER(0xe000ed88u)
#define VECTOR_TABLE REGISTER(0xe000ed08u)
#if !defined(STARTS_IN_ENERGY_MODE)
#define STARTS_IN_ENERGY_MODE 0
#endif
#define EXTERNAL_INTERRUPTS 48
#define LINE_SPEED 115200u
#define RECEIVED_MAX 4096u /* bytes; a power of two, and more than two frames */
#define CYCLES_MAX 4096u

extern uint8_t data_from[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];
extern uint8_t model_start[], model_size[], arena_start[], arena_size[];

static uint64_t ticks_before; /* the counter was started for the last time */
static volatile uint32_t overflow_count;
static volatile uint8_t received[RECEIVED_MAX];
static volatile uint32_t received_count;
static uint32_t taken_count;
static uint32_t cycles[CYCLES_MAX];

struct port port;

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

static void uart_put(uint32_t uart, uint8_t byte)
{
	while (REGISTER(uart + UART_STATE) & TX_FULL)
		;
	REGISTER(uart + UART_DATA) = byte;
}

void port_pulse(void)
{
	char digits[20];
	uint64_t now = port_ticks();
	size_t count = 0;

	do
		digits[count++] = (char)('0' + now % 10);
	while (now /= 10);
	while (count)
		uart_put(UART_1, (uint8_t)digits[--count]);
	uart_put(UART_1, '\n');
}

void port_write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		uart_put(UART_0, (uint8_t)data[i]);
}

static void systick_handler(void) { overflow_count++; }

static void receive_handler(void)
{
	REGISTER(UART_0 + UART_INTERRUPT) = RX_INTERRUPTED;
	while (REGISTER(UART_0 + UART_STATE) & RX_FULL) {
		uint8_t byte = (uint8_t)REGISTER(UART_0 + UART_DATA);

		/* What has no room is lost, as on a line without flow control. */
		if (received_count - taken_count < RECEIVED_MAX)
			received[received_count++ % RECEIVED_MAX] = byte;
	}
}

/* The next byte; sleeps until there is one. */
static uint8_t take(void)
{
	__asm__ volatile("cpsid i" ::: "memory");
	while (received_count == taken_count)
		__asm__ volatile("wfi\n\tcpsie i\n\tisb\n\tcpsid i" ::: "memory");
	uint8_t byte = received[taken_count++ % RECEIVED_MAX];

	__asm__ volatile("cpsie i" ::: "memory");
	return byte;
}

/* It is 0 until it is loaded, which is no overflow. */
static void start_counter(void)
{
	SYSTICK_RELOAD = SYSTICK_PERIOD - 1;
	SYSTICK_VALUE = 0;
	SYSTICK_CONTROL = 7; /* the clock of the processor, with interrupt */
	while (SYSTICK_VALUE == 0)
		;
	overflow_count = 0;
}

/* Every window begins at the same phase of the counter, so that its overflows fall into the same
 * inferences whenever it is repeated. */
void port_begin_window(void)
{
	ticks_before = port_ticks();
	start_counter();
}

static void main_loop(void)
{
	port = (struct port){
		.board = BOARD, .cpu = CPU, .tick_source = "systick", .tick_hz = CLOCK_HZ,
		.model = model_start, .model_max = (size_t)model_size, .model_address = (uintptr_t)model_start,
		.ram = arena_start, .ram_max = (size_t)arena_size,
		.cycles = cycles, .cycles_max = CYCLES_MAX,
	};
	for (uint32_t uart = UART_0; uart <= UART_1; uart += UART_1 - UART_0) {
		REGISTER(uart + UART_DIVIDER) = CLOCK_HZ / LINE_SPEED;
		REGISTER(uart + UART_CONTROL) = TX_ENABLE | (uart == UART_0 ? RX_ENABLE | RX_INTERRUPT : 0);
	}
	start_counter();
	INTERRUPT_ENABLE(UART_0_RECEIVED) = 1u << UART_0_RECEIVED % 32;
	__asm__ volatile("cpsie i");
	device_reset(STARTS_IN_ENERGY_MODE);
	for (;;)
		device_receive(take());
}

void __attribute__((noreturn)) reset_handler(void)
{
	for (uint8_t *to = data_start, *from = data_from; to < data_end;)
		*to++ = *from++;
	for (uint8_t *to = bss_start; to < bss_end;)
		*to++ = 0;
	COPROCESSORS |= 0xfu << 20; /* floating point and vectors */
	VECTOR_TABLE = 0;
	__asm__ volatile("dsb\n\tisb");
	main_loop();
	for (;;)
		;
}

/* A fault: the name on the line, and no more. */
static void fault_handler(void)
{
	static const char TEXT[] = "\r\ne-[Fault]\r\n";

	port_write(TEXT, sizeof TEXT - 1);
	for (;;)
		__asm__ volatile("wfi");
}

typedef void (*handler)(void);

#pragma GCC diagnostic ignored "-Woverride-init" /* one of the ranges below */
static const handler VECTORS[16 + EXTERNAL_INTERRUPTS] __attribute__((section(".vectors"), used)) = {
	[0] = (handler)(uintptr_t)stack_top,
	[1] = (handler)reset_handler,
	[2 ... 14] = fault_handler,
	[15] = systick_handler,
	[16 ... 16 + EXTERNAL_INTERRUPTS - 1] = fault_handler,
	[16 + UART_0_RECEIVED] = receive_handler,
};
