/* Clocks of STMicroelectronics' STM32H7 with a single core and a linear regulator. Not tested on hardware yet. Sources:
 * RM0433, by chapter and register; STMicroelectronics/cmsis_device_h7 (addresses, bits); STM32CubeH7, its
 * RCC_ClockConfig for the Nucleo-H743ZI (dividers).
 *
 * Clock: 8 MHz from the ST-LINK, by the PLL. If there is none, the internal oscillator of 64 MHz, which has an error of
 * 1 %; x-info reports it. */
#include "device/port.h"
#include "ports/stm32/stm32.h"

/* PWR. */
enum { PWR_CSR1 = 0x04, PWR_CR3 = 0x0c, PWR_D3CR = 0x18 };
#define SUPPLY_UNLOCKED BIT(2) /* SCUEN: a write that clears it keeps the linear regulator */
#define VOLTAGE_READY BIT(13)  /* ACTVOSRDY, VOSRDY */
#define SCALE_1 (3u << 14)     /* VOS: up to 400 MHz */
/* RCC. */
enum { RCC_CFGR = 0x10, RCC_D1CFGR = 0x18, RCC_D2CFGR = 0x1c, RCC_D3CFGR = 0x20 };
enum { RCC_PLLCKSELR = 0x28, RCC_PLLCFGR = 0x2c, RCC_PLL1DIVR = 0x30 };
#define PLL_FROM_EXTERNAL (2u | 2u << 4) /* 8 MHz / 2 */
#define PLL_FROM_INTERNAL (0u | 16u << 4) /* 64 MHz / 16 */
#define PLL_INPUT_4_TO_8_MHZ (2u << 2)	  /* PLL1RGE */
#define PLL_OUTPUT_P BIT(16)		  /* DIVP1EN */
/* 4 MHz times N, halved; the outputs for others are not used. */
#define PLL_TIMES ((CLOCK_HZ / 2000000u - 1) | 1u << 9 | 1u << 16 | 1u << 24)
#define AHB_HALVED 8u
#define D1_HALVED (4u << 4)
#define D2_HALVED (4u << 4 | 4u << 8)
#define D3_HALVED (4u << 4)
#define SYSTEM_FROM_PLL 3u
#define SYSTEM_STATE (7u << 3)
/* ES0392, 2.2.10: before revision V, reads of AXI SRAM, where model and arena are, may return wrong data. */
#define REVISION (REGISTER(0x5c001000u) >> 16) /* DBGMCU_IDC, REV_ID */
#define REVISION_V 0x2000u
#define AXI_SRAM_READS REGISTER(0x51008108u) /* AXI_TARG7_FN_MOD */
#define SINGLE_READ BIT(0)		     /* READ_ISS_OVERRIDE */

/* PWR, system supply startup: the voltage may rise after the supply is chosen, and before the clock does. */
void start_clocks(void)
{
	uint32_t source = PLL_FROM_EXTERNAL;

	if (REVISION < REVISION_V)
		AXI_SRAM_READS = SINGLE_READ;
	if (!start_external_clock()) {
		source = PLL_FROM_INTERNAL;
		port.tick_source = TICK_SOURCE "-internal";
	}
	REGISTER(PWR + PWR_CR3) &= ~SUPPLY_UNLOCKED;
	wait_for(PWR + PWR_CSR1, VOLTAGE_READY, VOLTAGE_READY);
	set_bits(PWR + PWR_D3CR, SCALE_1);
	wait_for(PWR + PWR_D3CR, VOLTAGE_READY, VOLTAGE_READY);
	REGISTER(FLASH) = FLASH_SETTING;
	wait_for(FLASH, 0xfu, FLASH_SETTING & 0xfu);
	REGISTER(RCC + RCC_PLLCKSELR) = source;
	REGISTER(RCC + RCC_PLLCFGR) = PLL_INPUT_4_TO_8_MHZ | PLL_OUTPUT_P;
	REGISTER(RCC + RCC_PLL1DIVR) = PLL_TIMES;
	set_bits(RCC + RCC_CR, PLL_ON);
	wait_for(RCC + RCC_CR, PLL_READY, PLL_READY);
	REGISTER(RCC + RCC_D1CFGR) = AHB_HALVED | D1_HALVED;
	REGISTER(RCC + RCC_D2CFGR) = D2_HALVED;
	REGISTER(RCC + RCC_D3CFGR) = D3_HALVED;
	set_bits(RCC + RCC_CFGR, SYSTEM_FROM_PLL);
	wait_for(RCC + RCC_CFGR, SYSTEM_STATE, SYSTEM_FROM_PLL << 3);
}
