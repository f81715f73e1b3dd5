/* Not tested on hardware yet. Sources: RM0432 (reference manual of the STM32L4+), by
 * chapter and register; UM2179 (the board).
 *
 * Serial line: LPUART1 on PG7 and PG8, which the ST-LINK forwards over USB. In energy mode USART3
 * on PD8 and PD9 (D1 and D0 of the Arduino connector), as in MLPerf Tiny's reference, since the
 * ST-LINK is then without power. Timestamp pin: PF13 (D7).
 *
 * Clock: MSI at 4 MHz, by the PLL 120 MHz. Alone, MSI has an error of 1 %; it is locked to the board's
 * crystal of 32.768 kHz. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

/* Memory and bus architecture. */
#define PWR 0x40007000u
#define RCC 0x40021000u
#define FLASH 0x40022000u
#define GPIO(letter) (0x48000000u + 0x400u * ((letter) - 'A'))
#define LPUART1 0x40008000u
#define USART3 0x40004800u
#define UART (STARTS_IN_ENERGY_MODE ? USART3 : LPUART1)

/* PWR. */
enum { PWR_CR1 = 0x00, PWR_CR2 = 0x04, PWR_CR5 = 0x80 };
#define BACKUP_WRITABLE BIT(8) /* DBP */
#define PORT_G_POWERED BIT(9)  /* IOSV: PG2 to PG15 have a separate supply */
#define RANGE_1_NORMAL BIT(8)  /* R1MODE: 0 is boost, for more than 80 MHz */
/* RCC. */
enum { RCC_CR = 0x00, RCC_CFGR = 0x08, RCC_PLLCFGR = 0x0c, RCC_AHB2ENR = 0x4c, RCC_APB1ENR1 = 0x58 };
enum { RCC_APB1ENR2 = 0x5c, RCC_BDCR = 0x90 };
#define MSI_LOCKED BIT(2) /* MSIPLLEN */
#define PLL_ON BIT(24)
#define PLL_READY BIT(25)
#define PLL_FROM_MSI 1u
#define PLL_TIMES(n) ((uint32_t)(n) << 8)
#define PLL_OUTPUT_HALVED BIT(24) /* PLLREN; PLLR of 0 is a half */
#define AHB_HALVED (8u << 4)
#define SYSTEM_FROM_PLL 3u
#define SYSTEM_STATE (3u << 2)
#define PWR_CLOCK BIT(28)
#define USART3_CLOCK BIT(18)
#define LPUART1_CLOCK BIT(0)
#define CRYSTAL_ON BIT(0)    /* LSEON */
#define CRYSTAL_READY BIT(1) /* LSERDY */
/* At 4 MHz more than the two seconds that the crystal may take (datasheet DS12023, characteristics of LSE). */
#define CRYSTAL_POLLS 2000000u
/* FLASH_ACR: five wait states up to 120 MHz in boost mode; prefetch and both caches. */
#define FLASH_SETTING (5u | BIT(8) | BIT(9) | BIT(10))
/* GPIO. */
enum { GPIO_MODE = 0x00, GPIO_SET_RESET = 0x18, GPIO_FUNCTION = 0x20 };
enum { OUTPUT = 1, ALTERNATE = 2 };
/* USART and LPUART, which have the same registers. */
enum { UART_CR1 = 0x00, UART_BRR = 0x0c, UART_ISR = 0x1c, UART_ICR = 0x20, UART_RDR = 0x24, UART_TDR = 0x28 };
#define UART_ON (BIT(0) | BIT(2) | BIT(3) | BIT(5)) /* UE, RE, TE, RXNEIE */
#define ERRORS 0xfu				    /* parity, frame, noise, overrun */
#define RECEIVED BIT(5)
#define SENT BIT(6)
#define ROOM BIT(7)
#define PIN 13

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

/* RCC, MSI clock: MSI is corrected by the crystal. If the crystal does not start, the error is 1 %. */
static void lock_to_crystal(void)
{
	set_bits(PWR + PWR_CR1, BACKUP_WRITABLE);
	set_bits(RCC + RCC_BDCR, CRYSTAL_ON);
	for (uint32_t i = 0; i < CRYSTAL_POLLS && !(REGISTER(RCC + RCC_BDCR) & CRYSTAL_READY); i++)
		;
	if (REGISTER(RCC + RCC_BDCR) & CRYSTAL_READY)
		set_bits(RCC + RCC_CR, MSI_LOCKED);
}

/* PWR, dynamic voltage scaling: into boost mode before the clock rises, and above 80 MHz over half of it for 1 us. */
static void start_clocks(void)
{
	set_bits(RCC + RCC_APB1ENR1, PWR_CLOCK);
	lock_to_crystal();
	REGISTER(PWR + PWR_CR5) &= ~RANGE_1_NORMAL;
	REGISTER(FLASH) = FLASH_SETTING;
	wait_for(FLASH, 0xfu, 5u);
	REGISTER(RCC + RCC_PLLCFGR) = PLL_FROM_MSI | PLL_TIMES(60) | PLL_OUTPUT_HALVED;
	set_bits(RCC + RCC_CR, PLL_ON);
	wait_for(RCC + RCC_CR, PLL_READY, PLL_READY);
	REGISTER(RCC + RCC_CFGR) = AHB_HALVED | SYSTEM_FROM_PLL;
	wait_for(RCC + RCC_CFGR, SYSTEM_STATE, SYSTEM_FROM_PLL << 2);
	for (volatile uint32_t i = 0; i < 60; i++)
		;
	REGISTER(RCC + RCC_CFGR) = SYSTEM_FROM_PLL;
}

void board_start(void)
{
	start_clocks();
	set_bits(RCC + RCC_AHB2ENR, BIT('D' - 'A') | BIT('F' - 'A') | BIT('G' - 'A'));
	REGISTER(GPIO('F') + GPIO_SET_RESET) = BIT(PIN);
	configure(GPIO('F'), PIN, OUTPUT, 0);
	if (STARTS_IN_ENERGY_MODE) {
		set_bits(RCC + RCC_APB1ENR1, USART3_CLOCK);
		configure(GPIO('D'), 8, ALTERNATE, 7);
		configure(GPIO('D'), 9, ALTERNATE, 7);
		REGISTER(UART + UART_BRR) = CLOCK_HZ / LINE_SPEED;
	} else {
		set_bits(PWR + PWR_CR2, PORT_G_POWERED);
		set_bits(RCC + RCC_APB1ENR2, LPUART1_CLOCK);
		configure(GPIO('G'), 7, ALTERNATE, 8);
		configure(GPIO('G'), 8, ALTERNATE, 8);
		/* LPUART_BRR: in 256ths of a cycle. */
		REGISTER(UART + UART_BRR) = (uint32_t)((256ull * CLOCK_HZ + LINE_SPEED / 2) / LINE_SPEED);
	}
	REGISTER(UART + UART_CR1) = UART_ON;
}

void port_pulse(void)
{
	uint64_t begin = port_ticks();

	REGISTER(GPIO('F') + GPIO_SET_RESET) = BIT(PIN) << 16;
	while (port_ticks() - begin < PULSE_TICKS)
		;
	REGISTER(GPIO('F') + GPIO_SET_RESET) = BIT(PIN);
}

/* Returns after the last bit is sent, so that the line is idle in a window. */
void port_write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		wait_for(UART + UART_ISR, ROOM, ROOM);
		REGISTER(UART + UART_TDR) = (uint8_t)data[i];
	}
	wait_for(UART + UART_ISR, SENT, SENT);
}

void receive_handler(void)
{
	REGISTER(UART + UART_ICR) = ERRORS; /* otherwise the interrupt would not end */
	while (REGISTER(UART + UART_ISR) & RECEIVED)
		keep_received((uint8_t)REGISTER(UART + UART_RDR));
}
