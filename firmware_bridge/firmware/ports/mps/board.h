/* Boards of Arm's MPS2 and MPS3 series on QEMU. */
#ifndef BOARD_H
#define BOARD_H

#if defined(MPS2_AN385)
#define BOARD "mps2-an385"
#define CPU "cortex-m3"
#elif defined(MPS2_AN386)
#define BOARD "mps2-an386"
#define CPU "cortex-m4"
#elif defined(MPS2_AN500)
#define BOARD "mps2-an500"
#define CPU "cortex-m7"
#else
#define BOARD "mps3-an547"
#define CPU "cortex-m55"
#endif

#if defined(MPS3_AN547)
#define UART_0 0x49303000u
#define UART_1 0x49304000u
#define RECEIVE_INTERRUPT 33
#define CLOCK_HZ 32000000u
#else
#define UART_0 0x40004000u
#define UART_1 0x40005000u
#define RECEIVE_INTERRUPT 0
#define CLOCK_HZ 25000000u
#endif

#define IS_UNTESTED 0
#define TICK_SOURCE "systick"
#define EXTERNAL_INTERRUPTS 48
#define WAIT "wfi" /* a waiting emulator leaves the CPU to other processes */

#endif
