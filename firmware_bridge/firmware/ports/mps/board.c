/* Serial line: CMSDK UART 0 (Arm DDI 0479, 4.3). Timestamp pin: UART 1, which writes a line with
 * the value of the counter, as an emulated board has no pins. */
#include <stddef.h>
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

enum { UART_DATA = 0x0, UART_STATE = 0x4, UART_CONTROL = 0x8, UART_INTERRUPT = 0xc, UART_DIVIDER = 0x10 };
enum { TX_FULL = 1, RX_FULL = 2, TX_ENABLE = 1, RX_ENABLE = 2, RX_INTERRUPT = 8, RX_INTERRUPTED = 2 };

static void uart_put(uint32_t uart, uint8_t byte)
{
	while (REGISTER(uart + UART_STATE) & TX_FULL)
		;
	REGISTER(uart + UART_DATA) = byte;
}

void port_pulse(void)
{
	char digits[20];
	uint64_t now = port_ticks();
	size_t count = 0;

	do
		digits[count++] = (char)('0' + now % 10);
	while (now /= 10);
	while (count)
		uart_put(UART_1, (uint8_t)digits[--count]);
	uart_put(UART_1, '\n');
}

void port_write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		uart_put(UART_0, (uint8_t)data[i]);
}

void receive_handler(void)
{
	REGISTER(UART_0 + UART_INTERRUPT) = RX_INTERRUPTED;
	while (REGISTER(UART_0 + UART_STATE) & RX_FULL)
		keep_received((uint8_t)REGISTER(UART_0 + UART_DATA));
}

void board_start(void)
{
	for (uint32_t uart = UART_0; uart <= UART_1; uart += UART_1 - UART_0) {
		REGISTER(uart + UART_DIVIDER) = CLOCK_HZ / LINE_SPEED;
		REGISTER(uart + UART_CONTROL) = TX_ENABLE | (uart == UART_0 ? RX_ENABLE | RX_INTERRUPT : 0);
	}
}
