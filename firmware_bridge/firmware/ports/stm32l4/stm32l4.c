/* Clocks of STMicroelectronics' STM32L4 and STM32L4+. Not tested on hardware yet. Sources: RM0351 and RM0432, by chapter
 * and register.
 *
 * Clock: MSI at 4 MHz, by the PLL. Alone, MSI has an error of 1 %; it is locked to the board's crystal of
 * 32.768 kHz. */
#include "ports/stm32/stm32.h"

#define NORMAL_MAX_HZ 80000000u /* above it, the regulator is in boost mode, which only the L4+ has */
/* PWR. */
enum { PWR_CR1 = 0x00, PWR_CR2 = 0x04, PWR_CR5 = 0x80 };
#define BACKUP_WRITABLE BIT(8) /* DBP */
#define PORT_G_POWERED BIT(9)  /* IOSV: PG2 to PG15 have a separate supply */
#define RANGE_1_NORMAL BIT(8)  /* R1MODE: 0 is boost */
/* RCC. */
enum { RCC_CFGR = 0x08, RCC_PLLCFGR = 0x0c, RCC_BDCR = 0x90 };
#define MSI_LOCKED BIT(2) /* MSIPLLEN */
#define PLL_FROM_MSI 1u
#define PLL_TIMES (CLOCK_HZ / 2000000u << 8) /* 4 MHz times N, halved */
#define PLL_OUTPUT_HALVED BIT(24)	      /* PLLREN; PLLR of 0 is a half */
#define AHB_HALVED (8u << 4)
#define SYSTEM_FROM_PLL 3u
#define SYSTEM_STATE (3u << 2)
#define PWR_CLOCK BIT(28)
#define CRYSTAL_ON BIT(0)    /* LSEON */
#define CRYSTAL_READY BIT(1) /* LSERDY */
/* At 4 MHz more than the two seconds that the crystal may take (data sheets DS10198 and DS12023, LSE). */
#define CRYSTAL_POLLS 2000000u

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
void start_clocks(void)
{
	set_bits(APB1_CLOCKS, PWR_CLOCK);
	if (LINE_PORT == 'G')
		set_bits(PWR + PWR_CR2, PORT_G_POWERED);
	lock_to_crystal();
	if (CLOCK_HZ > NORMAL_MAX_HZ)
		REGISTER(PWR + PWR_CR5) &= ~RANGE_1_NORMAL;
	REGISTER(FLASH) = FLASH_SETTING;
	wait_for(FLASH, 0xfu, FLASH_SETTING & 0xfu);
	REGISTER(RCC + RCC_PLLCFGR) = PLL_FROM_MSI | PLL_TIMES | PLL_OUTPUT_HALVED;
	set_bits(RCC + RCC_CR, PLL_ON);
	wait_for(RCC + RCC_CR, PLL_READY, PLL_READY);
	REGISTER(RCC + RCC_CFGR) = AHB_HALVED | SYSTEM_FROM_PLL;
	wait_for(RCC + RCC_CFGR, SYSTEM_STATE, SYSTEM_FROM_PLL << 2);
	for (volatile uint32_t i = 0; i < 60; i++)
		;
	REGISTER(RCC + RCC_CFGR) = SYSTEM_FROM_PLL;
}
