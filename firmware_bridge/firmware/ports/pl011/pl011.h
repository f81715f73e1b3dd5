/* A PL011 as the serial line; board.h defines its address (UART) and its clock (UART_CLOCK_HZ). */
#ifndef PL011_H
#define PL011_H

/* The board must have set up its clock and its pins before. */
void uart_start(void);

#endif
