/* QEMU's machine `virt` with a 32-bit RISC-V processor, as a user of the library.
 *
 * Serial line: UART 16550 at 0x10000000 (NS16550A datasheet). Counter: minstret, instructions. There
 * is no second UART, so no timestamp pin. Source of the addresses: QEMU 7.2, hw/riscv/virt.c. */
#include <stdint.h>

#include "library/edgebench.h"
#include "ports/bare_metal/stack.h"

#define BYTE(address) (*(volatile uint8_t *)(uintptr_t)(address))
#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* NS16550A: registers are bytes. */
#define UART 0x10000000u
enum { UART_DATA = 0, UART_INTERRUPTS = 1, UART_FIFO = 2, UART_LINE = 3, UART_STATE = 5 };
enum { RECEIVED = 1, SENT = 0x40, FIFO_ON = 1, WORDS_OF_8 = 3 };
/* Platform-level interrupt controller: the UART is source 10; context 0 is the first processor in machine mode.
 * Source: riscv/riscv-plic-spec. */
#define UART_SOURCE 10u
#define PLIC_PRIORITY WORD(0x0c000000u + 4 * UART_SOURCE)
#define PLIC_ENABLE WORD(0x0c002000u)
#define PLIC_CLAIM WORD(0x0c200004u)
#define EXTERNAL_INTERRUPT 0x800u /* mie.MEIE: RISC-V Privileged Architecture, 3.1.9 */
/* Time in units of 100 ns: core-local interruptor, mtime. */
#define TIME WORD(0x0200bff8u)
#define TIME_HZ 10000000u
/* The device sifive_test: this value resets the machine. */
#define TEST WORD(0x00100000u)
#define TEST_RESET 0x7777u

#if !defined(STARTS_IN_ENERGY_MODE)
#define STARTS_IN_ENERGY_MODE 0
#endif
#define DURATIONS_MAX 4096u

extern uint8_t data_from[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];
extern uint8_t model_start[], model_size[], arena_start[], arena_size[];
extern const uint32_t is_model_linked; /* not an address: a compiler assumes that those are not 0 */

static uint32_t durations[DURATIONS_MAX];
static uint32_t ticks_per_instruction = 1;

static uint64_t retired(void)
{
	uint32_t high, low, again;

	do
		__asm__ volatile("csrr %0, minstreth\n\tcsrr %1, minstret\n\tcsrr %2, minstreth"
				 : "=r"(high), "=r"(low), "=r"(again));
	while (high != again);
	return (uint64_t)high << 32 | low;
}

static uint64_t instructions(void) { return retired() / ticks_per_instruction; }

/* QEMU 7.2 counts 2^shift for an instruction, others 1. */
static void measure_counter(void)
{
	uint32_t first, second;

	__asm__ volatile("csrr %0, minstret\n\tcsrr %1, minstret" : "=r"(first), "=r"(second));
	ticks_per_instruction = second - first ? second - first : 1;
}

/* The virtual rate of instructions is 10^9 / 2^shift; QEMU does not report the shift. */
static uint64_t instructions_per_second(void)
{
	uint32_t begin = TIME;
	uint64_t rate = 1000000000u;

	while (TIME == begin)
		;
	begin = TIME;
	uint64_t first = instructions();

	while (TIME - begin < 100)
		;
	uint64_t measured = (instructions() - first) * (TIME_HZ / 100);

	while (rate > 1 && rate * 3 / 4 > measured)
		rate /= 2;
	return rate;
}

static void write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		while (!(BYTE(UART + UART_STATE) & SENT))
			;
		BYTE(UART + UART_DATA) = (uint8_t)data[i];
	}
	while (!(BYTE(UART + UART_STATE) & SENT))
		;
}

/* A waiting emulator leaves the CPU to other processes. An interrupt wakes the processor, but is not taken,
 * so that none occurs in a timed window. */
static uint8_t take(void)
{
	while (!(BYTE(UART + UART_STATE) & RECEIVED)) {
		__asm__ volatile("wfi");
		PLIC_CLAIM = PLIC_CLAIM;
	}
	return BYTE(UART + UART_DATA);
}

static void __attribute__((used, noreturn)) restart(void)
{
	static const char TEXT[] = "\r\ne-[Fault]\r\n";

	write(TEXT, sizeof TEXT - 1);
	TEST = TEST_RESET;
	for (;;)
		;
}

/* Any trap: print, and start again. The stack may be full. */
static void __attribute__((naked, aligned(4))) fault_handler(void)
{
	__asm__ volatile("la sp, stack_top\n\tj restart");
}

/* Physical memory protection, entry 0: 256 bytes that can only be read; locked, so that it applies to machine mode.
 * Source: RISC-V Privileged Architecture, 3.7. */
static void guard_stack(void)
{
	extern uint8_t stack_guard[];

	__asm__ volatile("csrw pmpaddr0, %0" ::"r"((uintptr_t)stack_guard >> 2 | (256 / 8 - 1)));
	__asm__ volatile("csrw pmpcfg0, %0" ::"r"(0x80 | 3 << 3 | 1));
}

static void start_line(void)
{
	BYTE(UART + UART_LINE) = WORDS_OF_8;
	BYTE(UART + UART_FIFO) = FIFO_ON;
	BYTE(UART + UART_INTERRUPTS) = RECEIVED;
	PLIC_PRIORITY = 1;
	PLIC_ENABLE = 1u << UART_SOURCE;
	__asm__ volatile("csrw mtvec, %0" ::"r"(fault_handler));
	__asm__ volatile("csrs mie, %0" ::"r"(EXTERNAL_INTERRUPT));
}

void __attribute__((noreturn)) start(void)
{
	for (uint8_t *to = data_start, *from = data_from; to < data_end;)
		*to++ = *from++;
	for (uint8_t *to = bss_start; to < bss_end;)
		*to++ = 0;
	start_line();
	guard_stack();
	measure_counter();
	struct edgebench_board board = {
		.name = "riscv32-virt", .cpu = "rv32imac", .tick_source = "instret",
		.tick_hz = instructions_per_second(), .ticks = instructions, .write = write,
		.model = model_start, .model_bytes = (size_t)model_size, .model_address = (uintptr_t)model_start,
		.is_model_linked = is_model_linked != 0,
		.ram = arena_start, .ram_bytes = (size_t)arena_size,
		.code_bytes = (size_t)code_size, .data_bytes = (size_t)data_size,
		.paint_stack = paint_stack, .stack_peak = stack_peak, .stack_bytes = stack_size(),
		.durations = durations, .durations_max = DURATIONS_MAX, .is_emulated = true,
	};
	edgebench_start(&board, STARTS_IN_ENERGY_MODE);
	for (;;) {
		if (edgebench_is_busy() && !(BYTE(UART + UART_STATE) & RECEIVED))
			edgebench_poll();
		else
			edgebench_receive(take());
	}
}

/* The first instruction after a reset; the top of the stack is in the word after it, for board_fit.py. */
void __attribute__((naked, used, section(".vectors"))) reset_handler(void)
{
	__asm__ volatile(".option push\n\t.option norvc\n\tj 1f\n\t.word stack_top\n"
			 "1:\tla t0, reset_handler\n\tlw sp, 4(t0)\n\tj start\n\t.option pop");
}
