/* Pins, line and caches of STMicroelectronics' STM32. Sources: reference manuals RM0390 (F446), RM0410 (F767), RM0351
 * (L476), RM0432 (L4R5), RM0433 (H743), by chapter and register. */
#include <stddef.h>

#include "device/port.h"
#include "ports/stm32/stm32.h"

#define GPIO(letter) (GPIO_A + 0x400u * ((letter) - 'A'))
#define EXTERNAL_ON (BIT(16) | BIT(18)) /* HSEON, HSEBYP */
#define EXTERNAL_READY BIT(17)
#define EXTERNAL_POLLS 200000u /* tens of milliseconds at 16 MHz, milliseconds at 64 MHz */
/* GPIO. */
enum { GPIO_MODE = 0x00, GPIO_SET_RESET = 0x18, GPIO_FUNCTION = 0x20 };
enum { OUTPUT = 1, ALTERNATE = 2 };
/* USART, and LPUART, which has the same registers. */
#define RECEIVED BIT(5)
#define SENT BIT(6)
#define ROOM BIT(7)
#define ERRORS 0xfu /* parity, frame, noise, overrun */
#if defined(STM32F4)
enum { LINE_STATE = 0x00, LINE_SENT = 0x04, LINE_RECEIVED = 0x04, LINE_BRR = 0x08, LINE_CR1 = 0x0c };
#define LINE_ON (BIT(13) | BIT(2) | BIT(3) | BIT(5)) /* UE, RE, TE, RXNEIE */
#else
enum { LINE_CR1 = 0x00, LINE_BRR = 0x0c, LINE_STATE = 0x1c, LINE_ICR = 0x20, LINE_RECEIVED = 0x24, LINE_SENT = 0x28 };
#define LINE_ON (BIT(0) | BIT(2) | BIT(3) | BIT(5))
#endif
#if !defined(LINE_FUNCTION)
#define LINE_FUNCTION 7 /* of the pins: USART1 to 3 */
#endif
#if !defined(LINE_DIVIDER)
#define LINE_DIVIDER ((LINE_CLOCK_HZ + LINE_SPEED / 2) / LINE_SPEED)
#endif

void set_bits(uint32_t address, uint32_t bits)
{
	REGISTER(address) |= bits;
	(void)REGISTER(address); /* a clock starts two cycles after it is enabled */
}

void wait_for(uint32_t address, uint32_t bits, uint32_t value)
{
	while ((REGISTER(address) & bits) != value)
		;
}

bool start_external_clock(void)
{
	set_bits(RCC + RCC_CR, EXTERNAL_ON);
	for (uint32_t i = 0; i < EXTERNAL_POLLS; i++)
		if (REGISTER(RCC + RCC_CR) & EXTERNAL_READY)
			return true;
	return false;
}

/* Mode, and the number of an alternate function. */
static void configure(uint32_t gpio, uint32_t pin, uint32_t mode, uint32_t function)
{
	uint32_t functions = gpio + GPIO_FUNCTION + 4 * (pin / 8), shift = 4 * (pin % 8);

	REGISTER(functions) = (REGISTER(functions) & ~(0xfu << shift)) | function << shift;
	REGISTER(gpio + GPIO_MODE) = (REGISTER(gpio + GPIO_MODE) & ~(3u << 2 * pin)) | mode << 2 * pin;
}

/* Caches of a Cortex-M7: invalid, then on. Source: Armv7-M Architecture Reference Manual, B2.2 and B3.2. */
static void start_caches(void)
{
#if defined(HAS_CACHES)
	volatile uint32_t *setting = (volatile uint32_t *)0xe000ed14u; /* CCR */

	REGISTER(0xe000ef50u) = 0; /* ICIALLU */
	REGISTER(0xe000ed84u) = 0; /* CSSELR: level 1, data */
	__asm__ volatile("dsb");
	uint32_t size = REGISTER(0xe000ed80u); /* CCSIDR */

	for (uint32_t set = 0; set <= (size >> 13 & 0x7fffu); set++)
		for (uint32_t way = 0; way <= (size >> 3 & 0x3ffu); way++)
			REGISTER(0xe000ef60u) = way << 30 | set << 5; /* DCISW: four ways, lines of 32 bytes */
	__asm__ volatile("dsb");
	*setting |= BIT(16) | BIT(17);
	__asm__ volatile("dsb\n\tisb");
#endif
}

void board_start(void)
{
	start_clocks();
	start_caches();
	set_bits(GPIO_CLOCKS, BIT(LINE_PORT - 'A') | BIT(PIN_PORT - 'A'));
	REGISTER(GPIO(PIN_PORT) + GPIO_SET_RESET) = BIT(PIN);
	configure(GPIO(PIN_PORT), PIN, OUTPUT, 0);
	set_bits(LINE_CLOCKS, LINE_CLOCK);
	configure(GPIO(LINE_PORT), LINE_TX, ALTERNATE, LINE_FUNCTION);
	configure(GPIO(LINE_PORT), LINE_RX, ALTERNATE, LINE_FUNCTION);
	REGISTER(LINE + LINE_BRR) = LINE_DIVIDER;
	REGISTER(LINE + LINE_CR1) = LINE_ON;
}

void port_pulse(void)
{
	uint64_t begin = port_ticks();

	REGISTER(GPIO(PIN_PORT) + GPIO_SET_RESET) = BIT(PIN) << 16;
	while (port_ticks() - begin < PULSE_TICKS)
		;
	REGISTER(GPIO(PIN_PORT) + GPIO_SET_RESET) = BIT(PIN);
}

/* Returns after the last bit is sent, so that the line is idle in a window. */
void port_write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		wait_for(LINE + LINE_STATE, ROOM, ROOM);
		REGISTER(LINE + LINE_SENT) = (uint8_t)data[i];
	}
	wait_for(LINE + LINE_STATE, SENT, SENT);
}

/* Errors would keep the interrupt pending: a register clears them, on the F4 a read of state and data. */
void receive_handler(void)
{
	uint32_t state = REGISTER(LINE + LINE_STATE);

#if defined(STM32F4)
	if (state & ERRORS && !(state & RECEIVED))
		(void)REGISTER(LINE + LINE_RECEIVED);
#else
	REGISTER(LINE + LINE_ICR) = ERRORS;
#endif
	for (; state & RECEIVED; state = REGISTER(LINE + LINE_STATE))
		keep_received((uint8_t)REGISTER(LINE + LINE_RECEIVED));
}
