/* Nordic Semiconductor nRF52840 DK: nRF52840, Cortex-M4F. */
#ifndef BOARD_H
#define BOARD_H

#define BOARD "nrf52840-dk"
#define CPU "cortex-m4"
#define CLOCK_HZ 64000000u
#define IS_UNTESTED 1
#define TICK_SOURCE "cyccnt"
#define RECEIVE_INTERRUPT 2 /* UARTE0 and UART0: NordicSemiconductor/nrfx, mdk/nrf52840_vectors.h */
#define EXTERNAL_INTERRUPTS 48
#define WAIT "nop"

#endif
