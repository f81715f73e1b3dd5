/* STMicroelectronics STM32F4 and STM32F7, which have the same clocks, pins and power at the same addresses; board.h has
 * the clock, the line and the pins of a board. Not tested on hardware yet. Sources: RM0390 and RM0410, by
 * chapter and register; STMicroelectronics/cmsis_device_f4 and cmsis_device_f7 (addresses, bits).
 *
 * Clock: 8 MHz from the ST-LINK, by the PLL. If there is none, as the ST-LINK is without power, the internal
 * oscillator of 16 MHz, which has an error of 1 %; x-info reports it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

#define PWR 0x40007000u
#define GPIO(letter) (0x40020000u + 0x400u * ((letter) - 'A'))
#define RCC 0x40023800u
#define FLASH 0x40023c00u
/* PWR. */
enum { PWR_CR = 0x00, PWR_CSR = 0x04 };
#define SCALE_1 (3u << 14)  /* VOS */
#define OVERDRIVE BIT(16)   /* ODEN, ODRDY */
#define OVERDRIVEN BIT(17)  /* ODSWEN, ODSWRDY */
/* RCC. */
enum { RCC_CR = 0x00, RCC_PLLCFGR = 0x04, RCC_CFGR = 0x08, RCC_AHB1ENR = 0x30, RCC_APB1ENR = 0x40 };
#define EXTERNAL_ON (BIT(16) | BIT(18)) /* HSEON, HSEBYP */
#define EXTERNAL_READY BIT(17)
#define EXTERNAL_POLLS 200000u /* tens of milliseconds at 16 MHz */
#define PLL_ON BIT(24)
#define PLL_READY BIT(25)
/* 2 MHz times N, halved; the outputs for USB and others are not used. */
#define PLL_TIMES (CLOCK_HZ / 1000000u << 6 | 9u << 24 | 2u << 28)
#define PLL_FROM_EXTERNAL (BIT(22) | 4u)
#define PLL_FROM_INTERNAL 8u
#define APB1_QUARTERED (5u << 10)
#define APB2_HALVED (4u << 13)
#define SYSTEM_FROM_PLL 2u
#define SYSTEM_STATE (3u << 2)
#define PWR_CLOCK BIT(28)
#define USART_CLOCK_HZ (CLOCK_HZ / 4)
/* GPIO. */
enum { GPIO_MODE = 0x00, GPIO_SET_RESET = 0x18, GPIO_FUNCTION = 0x20 };
enum { OUTPUT = 1, ALTERNATE = 2, FUNCTION_USART = 7 };
/* USART. */
#define RECEIVED BIT(5)
#define SENT BIT(6)
#define ROOM BIT(7)
#define ERRORS 0xfu /* parity, frame, noise, overrun */
#if defined(STM32F7)
enum { USART_CR1 = 0x00, USART_BRR = 0x0c, USART_STATE = 0x1c, USART_ICR = 0x20, USART_RECEIVED = 0x24 };
enum { USART_SENT = 0x28 };
#define USART_ON (BIT(0) | BIT(2) | BIT(3) | BIT(5)) /* UE, RE, TE, RXNEIE */
#else
enum { USART_STATE = 0x00, USART_SENT = 0x04, USART_RECEIVED = 0x04, USART_BRR = 0x08, USART_CR1 = 0x0c };
#define USART_ON (BIT(13) | BIT(2) | BIT(3) | BIT(5))
#endif

static void set_bits(uint32_t address, uint32_t bits)
{
	REGISTER(address) |= bits;
	(void)REGISTER(address); /* a clock starts two cycles after it is enabled */
}

static void wait_for(uint32_t address, uint32_t bits, uint32_t value)
{
	while ((REGISTER(address) & bits) != value)
		;
}

/* Mode, and the number of an alternate function. */
static void configure(uint32_t gpio, uint32_t pin, uint32_t mode, uint32_t function)
{
	uint32_t functions = gpio + GPIO_FUNCTION + 4 * (pin / 8), shift = 4 * (pin % 8);

	REGISTER(functions) = (REGISTER(functions) & ~(0xfu << shift)) | function << shift;
	REGISTER(gpio + GPIO_MODE) = (REGISTER(gpio + GPIO_MODE) & ~(3u << 2 * pin)) | mode << 2 * pin;
}

static bool has_external_clock(void)
{
	set_bits(RCC + RCC_CR, EXTERNAL_ON);
	for (uint32_t i = 0; i < EXTERNAL_POLLS; i++)
		if (REGISTER(RCC + RCC_CR) & EXTERNAL_READY)
			return true;
	return false;
}

/* PWR, over-drive mode: between the start of the PLL and the switch to it. */
static void start_clocks(void)
{
	uint32_t source = PLL_FROM_EXTERNAL;

	if (!has_external_clock()) {
		source = PLL_FROM_INTERNAL;
		port.tick_source = TICK_SOURCE "-internal";
	}
	set_bits(RCC + RCC_APB1ENR, PWR_CLOCK);
	set_bits(PWR + PWR_CR, SCALE_1);
	REGISTER(RCC + RCC_PLLCFGR) = PLL_TIMES | source;
	set_bits(RCC + RCC_CR, PLL_ON);
	set_bits(PWR + PWR_CR, OVERDRIVE);
	wait_for(PWR + PWR_CSR, OVERDRIVE, OVERDRIVE);
	set_bits(PWR + PWR_CR, OVERDRIVEN);
	wait_for(PWR + PWR_CSR, OVERDRIVEN, OVERDRIVEN);
	wait_for(RCC + RCC_CR, PLL_READY, PLL_READY);
	REGISTER(FLASH) = FLASH_SETTING;
	wait_for(FLASH, 0xfu, FLASH_SETTING & 0xfu);
	REGISTER(RCC + RCC_CFGR) = APB1_QUARTERED | APB2_HALVED;
	set_bits(RCC + RCC_CFGR, SYSTEM_FROM_PLL);
	wait_for(RCC + RCC_CFGR, SYSTEM_STATE, SYSTEM_FROM_PLL << 2);
}

/* Caches of a Cortex-M7: invalid, then on. Source: Armv7-M Architecture Reference Manual, B2.2 and B3.2. */
static void start_caches(void)
{
#if defined(STM32F7)
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
	set_bits(RCC + RCC_AHB1ENR, BIT(LINE_PORT - 'A') | BIT(PIN_PORT - 'A'));
	REGISTER(GPIO(PIN_PORT) + GPIO_SET_RESET) = BIT(PIN);
	configure(GPIO(PIN_PORT), PIN, OUTPUT, 0);
	set_bits(RCC + RCC_APB1ENR, USART_CLOCK);
	configure(GPIO(LINE_PORT), LINE_TX, ALTERNATE, FUNCTION_USART);
	configure(GPIO(LINE_PORT), LINE_RX, ALTERNATE, FUNCTION_USART);
	REGISTER(USART + USART_BRR) = (USART_CLOCK_HZ + LINE_SPEED / 2) / LINE_SPEED;
	REGISTER(USART + USART_CR1) = USART_ON;
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
		wait_for(USART + USART_STATE, ROOM, ROOM);
		REGISTER(USART + USART_SENT) = (uint8_t)data[i];
	}
	wait_for(USART + USART_STATE, SENT, SENT);
}

/* Errors would keep the interrupt pending: the F7 clears them by a register, the F4 by a read of state and data. */
void receive_handler(void)
{
	uint32_t state = REGISTER(USART + USART_STATE);

#if defined(STM32F7)
	REGISTER(USART + USART_ICR) = ERRORS;
#else
	if (state & ERRORS && !(state & RECEIVED))
		(void)REGISTER(USART + USART_RECEIVED);
#endif
	for (; state & RECEIVED; state = REGISTER(USART + USART_STATE))
		keep_received((uint8_t)REGISTER(USART + USART_RECEIVED));
}
