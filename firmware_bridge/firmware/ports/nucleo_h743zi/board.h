/* STMicroelectronics Nucleo-H743ZI and -H743ZI2: STM32H743ZI, Cortex-M7. Sources: RM0433 (reference manual), UM1974 and
 * UM2407 (the boards); STMicroelectronics/cmsis_device_h7, Include/stm32h743xx.h. */
#ifndef BOARD_H
#define BOARD_H

#include "ports/stm32h7/stm32h7.h"

#define HAS_CACHES
#define BOARD "nucleo-h743zi"
#define CPU "cortex-m7"
#define CLOCK_HZ 400000000u
#define FLASH_SETTING (2u | 2u << 4) /* wait states and write delay for a bus of 200 MHz; caches are the processor's */
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
/* USART3 on PD8 and PD9, which the ST-LINK forwards over USB. */
#define LINE 0x40004800u
#define LINE_CLOCK BIT(18)
#define LINE_PORT 'D'
#define RECEIVE_INTERRUPT 39
#define EXTERNAL_INTERRUPTS 150
#define WAIT "nop"
/* Timestamp pin: D9 of the Arduino connector, which is the same pin on both boards; D7 is not. */
#define PIN_PORT 'D'
enum { LINE_TX = 8, LINE_RX = 9, PIN = 15 };

#endif
