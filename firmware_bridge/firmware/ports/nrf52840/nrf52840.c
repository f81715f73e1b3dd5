/* Nordic Semiconductor's nRF52840. Not tested on hardware yet. Sources: nRF52840 Product Specification, by chapter and
 * register; NordicSemiconductor/nrfx, mdk/nrf52840.svd and nrf52840_bitfields.h (addresses, values).
 *
 * Serial line: UART0, the peripheral without DMA: it sends and receives single bytes.
 *
 * Clock: 64 MHz from the crystal of 32 MHz; the internal oscillator that runs after a reset has an error of percents. */
#include <stddef.h>
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"

/* CLOCK. */
#define START_CRYSTAL REGISTER(0x40000000u) /* TASKS_HFCLKSTART */
#define CLOCK_STATE REGISTER(0x4000040cu)   /* HFCLKSTAT: a bootloader may have started the crystal already */
#define CRYSTAL_RUNS (BIT(16) | BIT(0))
/* APPROTECT and UICR: the debug port stays open after a reset if the setting in flash says so. Chips before revision 3
 * open it by that setting alone. */
#define DEBUG_DISABLE REGISTER(0x40000558u)
#define DEBUG_SETTING REGISTER(0x10001208u)
/* NVMC. */
#define FLASH_CACHE REGISTER(0x4001e540u) /* ICACHECNF */
/* GPIO. */
#define GPIO(pin, offset) REGISTER(0x50000000u + 0x300u * ((pin) / 32) + (offset))
enum { OUT_SET = 0x508, OUT_CLEAR = 0x50c, PIN_SETTING = 0x700 };
#define PIN_OUTPUT 3u /* direction; the input is disconnected */
#define PIN_INPUT_PULLED_UP (3u << 2)
/* UART. */
#define UART 0x40002000u
enum { START_RX = 0x000, START_TX = 0x008, RECEIVED = 0x108, SENT = 0x11c, INTERRUPT_SET = 0x304, ENABLE = 0x500 };
enum { SELECT_TX = 0x50c, SELECT_RX = 0x514, RX_DATA = 0x518, TX_DATA = 0x51c, BAUD_RATE = 0x524 };
#define INTERRUPT_RECEIVED BIT(2)
#define UART_ENABLE 4u
#define BAUD_115200 0x01d7e000u
#define BAUD_9600 0x00275000u

static void configure(uint32_t pin, uint32_t setting) { GPIO(pin, PIN_SETTING + 4u * (pin % 32)) = setting; }

static void configure_output(uint32_t pin)
{
	GPIO(pin, OUT_SET) = BIT(pin % 32);
	configure(pin, PIN_OUTPUT);
}

void board_start(void)
{
	DEBUG_DISABLE = DEBUG_SETTING;
	FLASH_CACHE = 1;
	START_CRYSTAL = 1;
	while ((CLOCK_STATE & CRYSTAL_RUNS) != CRYSTAL_RUNS)
		;
	configure_output(PIN);
	configure_output(LINE_TX);
	configure(LINE_RX, PIN_INPUT_PULLED_UP);
	REGISTER(UART + SELECT_TX) = LINE_TX;
	REGISTER(UART + SELECT_RX) = LINE_RX;
	REGISTER(UART + BAUD_RATE) = STARTS_IN_ENERGY_MODE ? BAUD_9600 : BAUD_115200;
	REGISTER(UART + ENABLE) = UART_ENABLE;
	REGISTER(UART + INTERRUPT_SET) = INTERRUPT_RECEIVED;
	REGISTER(UART + START_TX) = 1;
	REGISTER(UART + START_RX) = 1;
}

void port_pulse(void)
{
	uint64_t begin = port_ticks();

	GPIO(PIN, OUT_CLEAR) = BIT(PIN % 32);
	while (port_ticks() - begin < PULSE_TICKS)
		;
	GPIO(PIN, OUT_SET) = BIT(PIN % 32);
}

/* Returns after the last bit is sent, so that the line is idle in a window. */
void port_write(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		REGISTER(UART + SENT) = 0;
		REGISTER(UART + TX_DATA) = (uint8_t)data[i];
		while (!REGISTER(UART + SENT))
			;
	}
}

/* A read of the data moves the next byte of the FIFO there, which sets the event again. */
void receive_handler(void)
{
	while (REGISTER(UART + RECEIVED)) {
		REGISTER(UART + RECEIVED) = 0;
		keep_received((uint8_t)REGISTER(UART + RX_DATA));
	}
}
