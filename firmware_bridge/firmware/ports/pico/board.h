/* Raspberry Pi Pico: RP2040, one of its two Cortex-M0+. Source: raspberrypi/pico-sdk, src/rp2040/hardware_regs
 * (addressmap.h, resets.h, intctrl.h, sio.h); RP2040 datasheet, by section. */
#ifndef BOARD_H
#define BOARD_H

#define BOARD "rp2040-pico"
#define CPU "cortex-m0+"
#define CLOCK_HZ 125000000u
#define PLL_DIVIDER 6u
#define IS_UNTESTED 1
#define TICK_SOURCE "systick" /* at the clock of the processor; this one has no CYCCNT */
#define RECEIVE_INTERRUPT 20  /* UART0: 2.3.2 */
#define EXTERNAL_INTERRUPTS 26
#define UART_CLOCK_HZ CLOCK_HZ
#define WAIT "nop"

/* 2.2, address map. */
#define CLOCKS 0x40008000u
#define RESETS 0x4000c000u
#define IO_BANK0 0x40014000u
#define PADS_BANK0 0x4001c000u
#define XOSC 0x40024000u
#define PLL_SYS 0x40028000u
#define UART 0x40034000u /* UART0 */
/* 2.14, resets. */
#define BLOCK_IO_BANK0 BIT(5)
#define BLOCK_PADS_BANK0 BIT(8)
#define BLOCK_PLL_SYS BIT(12)
#define BLOCK_UART0 BIT(22)
/* 2.3.1, single-cycle I/O. */
enum { OUT_SET = 0x14, OUT_CLEAR = 0x18, OUT_ENABLE_SET = 0x24 };

#endif
