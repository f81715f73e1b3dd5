/* STMicroelectronics Nucleo-F446RE: STM32F446RE, Cortex-M4F. Sources: RM0390 (reference manual), UM1724 (the board);
 * STMicroelectronics/cmsis_device_f4, Include/stm32f446xx.h. */
#ifndef BOARD_H
#define BOARD_H

#include "ports/stm32f/stm32f.h"

#define STM32F4
#define BOARD "nucleo-f446re"
#define CPU "cortex-m4"
#define CLOCK_HZ 180000000u
#define FLASH_SETTING (5u | BIT(8) | BIT(9) | BIT(10)) /* wait states, prefetch, both caches */
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
/* USART2 on PA2 and PA3, which the ST-LINK forwards over USB. */
#define LINE 0x40004400u
#define LINE_CLOCK BIT(17)
#define LINE_PORT 'A'
#define RECEIVE_INTERRUPT 38
#define EXTERNAL_INTERRUPTS 97
#define WAIT "nop"
/* Timestamp pin: D7 of the Arduino connector. */
#define PIN_PORT 'A'
enum { LINE_TX = 2, LINE_RX = 3, PIN = 8 };

#endif
