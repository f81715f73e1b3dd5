/* Arm's Musca-B1 on QEMU. It is not in the package: it tests the parts of the Pico 2 that an emulated
 * board has, its UART (PL011) and its kernels for Cortex-M33. */
#ifndef BOARD_H
#define BOARD_H

#define BOARD "musca-b1"
#define CPU "cortex-m33"
#define CLOCK_HZ 40000000u /* QEMU, hw/arm/musca.c: SYSCLK_FRQ */
#define IS_UNTESTED 0
#define TICK_SOURCE "systick"
#define RECEIVE_INTERRUPT 44 /* UART 0, all of its interrupts: hw/arm/musca.c, make_uart */
#define EXTERNAL_INTERRUPTS 96
#define UART 0x50105000u
#define UART_CLOCK_HZ CLOCK_HZ
#define WAIT "wfi"

#endif
