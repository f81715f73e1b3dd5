/* Parts that all STM32 have in common. A family's folder has start_clocks() and a header with PWR, RCC, FLASH, GPIO_A,
 * GPIO_CLOCKS, LINE_CLOCKS and LINE_CLOCK_HZ; board.h, which includes it, has the line (LINE, LINE_CLOCK, LINE_PORT,
 * LINE_TX, LINE_RX) and the timestamp pin (PIN_PORT, PIN). */
#ifndef STM32_H
#define STM32_H

#include <stdbool.h>
#include <stdint.h>

#include "ports/cortex_m/cortex_m.h"

enum { RCC_CR = 0x00 };
#define PLL_ON BIT(24)
#define PLL_READY BIT(25)

void start_clocks(void);
/* Start the clock from the ST-LINK; false if there is none, as the ST-LINK is without power. */
bool start_external_clock(void);
void set_bits(uint32_t address, uint32_t bits);
void wait_for(uint32_t address, uint32_t bits, uint32_t value);

#endif
