/* Raspberry Pi Pico 2: RP2350, one of its two Cortex-M33. Source: RP2350 datasheet, by section. */
#ifndef BOARD_H
#define BOARD_H

#define BOARD "pico2"
#define CPU "cortex-m33"
#define CLOCK_HZ 150000000u
#define PLL_DIVIDER 5u
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
#define RECEIVE_INTERRUPT 33 /* UART0: 3.2 */
#define EXTERNAL_INTERRUPTS 52
#define UART_CLOCK_HZ CLOCK_HZ
#define WAIT "nop"

/* 2.2, address map. */
#define CLOCKS 0x40010000u
#define RESETS 0x40020000u
#define IO_BANK0 0x40028000u
#define PADS_BANK0 0x40038000u
#define XOSC 0x40048000u
#define PLL_SYS 0x40050000u
#define UART 0x40070000u /* UART0 */
/* 7.5, resets. */
#define BLOCK_IO_BANK0 BIT(6)
#define BLOCK_PADS_BANK0 BIT(9)
#define BLOCK_PLL_SYS BIT(14)
#define BLOCK_UART0 BIT(26)
/* 3.1, single-cycle I/O. */
enum { OUT_SET = 0x18, OUT_CLEAR = 0x20, OUT_ENABLE_SET = 0x38 };

#endif
