/* STMicroelectronics Nucleo-L4R5ZI: STM32L4R5ZI, Cortex-M4F. Sources: RM0432 (reference manual), UM2179 (the board).
 *
 * Serial line: LPUART1 on PG7 and PG8, which the ST-LINK forwards over USB. In energy mode USART3
 * on PD8 and PD9 (D1 and D0 of the Arduino connector), as in MLPerf Tiny's reference, since the
 * ST-LINK is then without power. */
#ifndef BOARD_H
#define BOARD_H

#include "ports/stm32l4/stm32l4.h"

#define BOARD "nucleo-l4r5zi"
#define CPU "cortex-m4"
#define CLOCK_HZ 120000000u
#define FLASH_SETTING (5u | BIT(8) | BIT(9) | BIT(10)) /* wait states in boost mode, prefetch, both caches */
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
#define LINE (STARTS_IN_ENERGY_MODE ? 0x40004800u : 0x40008000u)
#define LINE_CLOCKS (STARTS_IN_ENERGY_MODE ? APB1_CLOCKS : APB1_CLOCKS_2)
#define LINE_CLOCK (STARTS_IN_ENERGY_MODE ? BIT(18) : BIT(0))
#define LINE_PORT (STARTS_IN_ENERGY_MODE ? 'D' : 'G')
#define LINE_TX (STARTS_IN_ENERGY_MODE ? 8u : 7u)
#define LINE_RX (STARTS_IN_ENERGY_MODE ? 9u : 8u)
#define LINE_FUNCTION (STARTS_IN_ENERGY_MODE ? 7u : 8u)
/* LPUART_BRR: in 256ths of a cycle. */
#define LINE_DIVIDER ((uint32_t)(((STARTS_IN_ENERGY_MODE ? 1ull : 256ull) * CLOCK_HZ + LINE_SPEED / 2) / LINE_SPEED))
/* RM0432, NVIC, table of vectors. */
#define RECEIVE_INTERRUPT (STARTS_IN_ENERGY_MODE ? 39 : 70)
#define EXTERNAL_INTERRUPTS 95
#define WAIT "nop"
/* Timestamp pin: D7 of the Arduino connector. */
#define PIN_PORT 'F'
enum { PIN = 13 };

#endif
