/* STMicroelectronics Nucleo-F767ZI: STM32F767ZI, Cortex-M7. Sources: RM0410 (reference manual), UM1974 (the board);
 * STMicroelectronics/cmsis_device_f7, Include/stm32f767xx.h. */
#ifndef BOARD_H
#define BOARD_H

#include "ports/stm32f/stm32f.h"

#define HAS_CACHES
#define BOARD "nucleo-f767zi"
#define CPU "cortex-m7"
#define CLOCK_HZ 216000000u
#define FLASH_SETTING (7u | BIT(8)) /* wait states, prefetch; caches are those of the processor */
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
/* USART3 on PD8 and PD9, which the ST-LINK forwards over USB. */
#define LINE 0x40004800u
#define LINE_CLOCK BIT(18)
#define LINE_PORT 'D'
#define RECEIVE_INTERRUPT 39
#define EXTERNAL_INTERRUPTS 110
#define WAIT "nop"
/* Timestamp pin: D7 of the Arduino connector. */
#define PIN_PORT 'F'
enum { LINE_TX = 8, LINE_RX = 9, PIN = 13 };

#endif
