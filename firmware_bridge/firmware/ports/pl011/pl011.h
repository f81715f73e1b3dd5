/* A PL011 as the serial line; board.h says where it is (UART), and its clock (UART_CLOCK_HZ). */
#ifndef PL011_H
#define PL011_H

/* The board has given it its clock and its pins. */
void uart_start(void);

#endif
