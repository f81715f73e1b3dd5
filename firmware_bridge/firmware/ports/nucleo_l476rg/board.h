/* STMicroelectronics Nucleo-L476RG: STM32L476RG, Cortex-M4F. Sources: RM0351 (reference manual), UM1724 (the board);
 * zephyrproject-rtos/zephyr, boards/st/nucleo_l476rg (pins). */
#ifndef BOARD_H
#define BOARD_H

#include "ports/stm32l4/stm32l4.h"

#define BOARD "nucleo-l476rg"
#define CPU "cortex-m4"
#define CLOCK_HZ 80000000u
#define FLASH_SETTING (4u | BIT(8) | BIT(9) | BIT(10)) /* wait states, prefetch, both caches */
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
/* USART2 on PA2 and PA3, which the ST-LINK forwards over USB. */
#define LINE 0x40004400u
#define LINE_CLOCKS APB1_CLOCKS
#define LINE_CLOCK BIT(17)
#define LINE_PORT 'A'
#define RECEIVE_INTERRUPT 38
#define EXTERNAL_INTERRUPTS 82
#define WAIT "nop"
/* Timestamp pin: D7 of the Arduino connector. */
#define PIN_PORT 'A'
enum { LINE_TX = 2, LINE_RX = 3, PIN = 8 };

#endif
