/* Clocks of STMicroelectronics' STM32F4 and STM32F7. Not tested on hardware yet. Sources: RM0390 and RM0410, by chapter
 * and register; STMicroelectronics/cmsis_device_f4 and cmsis_device_f7 (bits).
 *
 * Clock: 8 MHz from the ST-LINK, by the PLL. If there is none, the internal oscillator of 16 MHz, which has an error of
 * 1 %; x-info reports it. */
#include "device/port.h"
#include "ports/stm32/stm32.h"

/* PWR. */
enum { PWR_CR = 0x00, PWR_CSR = 0x04 };
#define SCALE_1 (3u << 14) /* VOS */
#define OVERDRIVE BIT(16)  /* ODEN, ODRDY */
#define OVERDRIVEN BIT(17) /* ODSWEN, ODSWRDY */
/* RCC. */
enum { RCC_PLLCFGR = 0x04, RCC_CFGR = 0x08, RCC_APB1ENR = 0x40 };
/* 2 MHz times N, halved; the outputs for USB and others are not used. */
#define PLL_TIMES (CLOCK_HZ / 1000000u << 6 | 9u << 24 | 2u << 28)
#define PLL_FROM_EXTERNAL (BIT(22) | 4u)
#define PLL_FROM_INTERNAL 8u
#define APB1_QUARTERED (5u << 10)
#define APB2_HALVED (4u << 13)
#define SYSTEM_FROM_PLL 2u
#define SYSTEM_STATE (3u << 2)
#define PWR_CLOCK BIT(28)

/* PWR, over-drive mode: between the start of the PLL and the switch to it. */
void start_clocks(void)
{
	uint32_t source = PLL_FROM_EXTERNAL;

	if (!start_external_clock()) {
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
