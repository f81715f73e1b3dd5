/* Source: PrimeCell UART PL011 Technical Reference Manual (Arm DDI 0183), 3.3. */
#include "ports/pl011/pl011.h"

#include <stddef.h>
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

enum { UART_DR = 0x00, UART_FR = 0x18, UART_IBRD = 0x24, UART_FBRD = 0x28, UART_LCR = 0x2c, UART_CR = 0x30 };
enum { UART_IMSC = 0x38, UART_ICR = 0x44 };
#define FR_BUSY BIT(3)
#define FR_RX_EMPTY BIT(4)
#define FR_TX_FULL BIT(5)
#define LCR_8N1_FIFOS (3u << 5 | BIT(4))
#define CR_ENABLE (BIT(0) | BIT(8) | BIT(9))
#define RX_INTERRUPTS (BIT(4) | BIT(6)) /* FIFO half full; FIFO not empty, and no byte for 32 bit times */
/* In 64ths, rounded. */
#define UART_DIVISOR ((8u * UART_CLOCK_HZ / LINE_SPEED + 1u) / 2u)

void uart_start(void)
{
	REGISTER(UART + UART_IBRD) = UART_DIVISOR >> 6;
	REGISTER(UART + UART_FBRD) = UART_DIVISOR & 63;
	REGISTER(UART + UART_LCR) = LCR_8N1_FIFOS; /* after the divisor, which this write activates */
	REGISTER(UART + UART_IMSC) = RX_INTERRUPTS;
	REGISTER(UART + UART_CR) = CR_ENABLE;
}

/* Returns after the last bit is sent, so that the line is idle in a window. */
void port_write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		while (REGISTER(UART + UART_FR) & FR_TX_FULL)
			;
		REGISTER(UART + UART_DR) = (uint8_t)data[i];
	}
	while (REGISTER(UART + UART_FR) & FR_BUSY)
		;
}

void receive_handler(void)
{
	REGISTER(UART + UART_ICR) = RX_INTERRUPTS;
	while (!(REGISTER(UART + UART_FR) & FR_RX_EMPTY))
		keep_received((uint8_t)REGISTER(UART + UART_DR));
}
