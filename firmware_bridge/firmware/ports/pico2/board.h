/* Raspberry Pi Pico 2: RP2350, one of its two Cortex-M33. */
#ifndef BOARD_H
#define BOARD_H

#define BOARD "pico2"
#define CPU "cortex-m33"
#define CLOCK_HZ 150000000u
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
#define RECEIVE_INTERRUPT 33 /* UART0: RP2350 datasheet, 3.2 */
#define EXTERNAL_INTERRUPTS 52
#define UART 0x40070000u /* UART0: 2.2, address map */
#define UART_CLOCK_HZ CLOCK_HZ
#define WAIT "nop"

#endif
