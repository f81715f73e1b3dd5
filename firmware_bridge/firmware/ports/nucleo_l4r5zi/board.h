/* STMicroelectronics Nucleo-L4R5ZI: STM32L4R5ZI, Cortex-M4F. */
#ifndef BOARD_H
#define BOARD_H

#define BOARD "nucleo-l4r5zi"
#define CPU "cortex-m4"
#define CLOCK_HZ 120000000u
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
/* LPUART1, or USART3 in energy mode: RM0432, NVIC, table of vectors. */
#define RECEIVE_INTERRUPT (STARTS_IN_ENERGY_MODE ? 39 : 70)
#define EXTERNAL_INTERRUPTS 95
#define WAIT "nop"

#endif
