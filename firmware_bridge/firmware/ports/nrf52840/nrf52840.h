/* What boards with an nRF52840 have in common; board.h has BOARD, IS_UNTESTED and the pins LINE_TX, LINE_RX and PIN. */
#ifndef NRF52840_H
#define NRF52840_H

#define CPU "cortex-m4"
#define CLOCK_HZ 64000000u
#define TICK_SOURCE "cyccnt"
#define RECEIVE_INTERRUPT 2 /* UARTE0 and UART0: NordicSemiconductor/nrfx, mdk/nrf52840_vectors.h */
#define EXTERNAL_INTERRUPTS 48
#define WAIT "nop"

enum { PORT_1 = 32 }; /* pin P1.00, in the numbers of the registers that select pins */

#endif
