/* Raspberry Pi's Pico (RP2040) and Pico 2 (RP2350). Not tested on hardware yet. Source: RP2350 datasheet, by section; for
 * the RP2040 its datasheet, in which these blocks have the same registers at the addresses of board.h.
 *
 * Serial line: UART0 on GP0 (sends) and GP1 (receives), by a serial adapter of 3.3 V or a Debug Probe;
 * its USB port would need a protocol stack. Timestamp pin: GP2.
 *
 * Clock: the crystal of 12 MHz, by the PLL. Flash is read with the settings of the boot ROM, or of ports/pico/boot2.c. */
#include <stdint.h>

#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"
#include "ports/pl011/pl011.h"

#define SIO 0xd0000000u
/* 2.1.3: writing to these aliases sets and clears bits. */
#define SET(address) REGISTER((address) + 0x2000u)
#define CLEAR(address) REGISTER((address) + 0x3000u)

/* 7.5, resets. */
enum { RESET = 0x0, RESET_DONE = 0x8 };
/* 8.2, crystal oscillator. */
enum { XOSC_CTRL = 0x00, XOSC_STATUS = 0x04, XOSC_STARTUP = 0x0c };
#define CRYSTAL_RANGE 0xaa0u /* 1 to 15 MHz */
#define CRYSTAL_ENABLE (0xfabu << 12)
#define CRYSTAL_STABLE BIT(31)
#define CRYSTAL_STARTUP 47u /* 1 ms, in 256 cycles of 12 MHz */
/* 8.6, PLL: 12 MHz x 125 / PLL_DIVIDER / 2. */
enum { PLL_CS = 0x0, PLL_PWR = 0x4, PLL_FBDIV = 0x8, PLL_PRIM = 0xc };
#define PLL_LOCKED BIT(31)
#define PLL_MAIN_DOWN (BIT(0) | BIT(5)) /* main power, oscillator */
#define PLL_DIVIDERS_DOWN BIT(3)
#define PLL_DIVIDERS (PLL_DIVIDER << 16 | 2u << 12)
/* 8.1, clocks. Each has control, divisor, and the source that is selected, a bit for each. */
enum { CLK_REF = 0x30, CLK_SYS = 0x3c, CLK_PERI = 0x48, CLOCK_SELECTED = 0x8 };
#define REF_FROM_CRYSTAL 2u
#define SYS_FROM_AUX 1u /* and AUXSRC of 0 is the PLL */
#define PERI_ENABLE BIT(11)
/* 9, pins and their pads. */
#define PIN_CONTROL(pin) REGISTER(IO_BANK0 + 8u * (pin) + 4u)
#define PAD(pin) REGISTER(PADS_BANK0 + 4u + 4u * (pin))
#define PAD_SETTING (BIT(6) | 1u << 4 | BIT(3) | BIT(1)) /* input, 4 mA, pull-up, hysteresis; not isolated */
enum { FUNCTION_UART = 2, FUNCTION_SIO = 5, PIN_TX = 0, PIN_RX = 1, PIN = 2 };

static void wait_for(uint32_t address, uint32_t bits)
{
	while ((REGISTER(address) & bits) != bits)
		;
}

static void release(uint32_t blocks)
{
	CLEAR(RESETS + RESET) = blocks;
	wait_for(RESETS + RESET_DONE, blocks);
}

static void start_clocks(void)
{
	REGISTER(XOSC + XOSC_CTRL) = CRYSTAL_RANGE;
	REGISTER(XOSC + XOSC_STARTUP) = CRYSTAL_STARTUP;
	SET(XOSC + XOSC_CTRL) = CRYSTAL_ENABLE;
	wait_for(XOSC + XOSC_STATUS, CRYSTAL_STABLE);
	CLEAR(CLOCKS + CLK_SYS) = SYS_FROM_AUX; /* away from the PLL, if the boot ROM used it */
	wait_for(CLOCKS + CLK_SYS + CLOCK_SELECTED, BIT(0));
	REGISTER(CLOCKS + CLK_REF) = REF_FROM_CRYSTAL;
	wait_for(CLOCKS + CLK_REF + CLOCK_SELECTED, BIT(REF_FROM_CRYSTAL));
	SET(RESETS + RESET) = BLOCK_PLL_SYS;
	release(BLOCK_PLL_SYS);
	REGISTER(PLL_SYS + PLL_CS) = 1; /* 12 MHz, undivided */
	REGISTER(PLL_SYS + PLL_FBDIV) = 125;
	CLEAR(PLL_SYS + PLL_PWR) = PLL_MAIN_DOWN;
	wait_for(PLL_SYS + PLL_CS, PLL_LOCKED);
	REGISTER(PLL_SYS + PLL_PRIM) = PLL_DIVIDERS;
	CLEAR(PLL_SYS + PLL_PWR) = PLL_DIVIDERS_DOWN;
	REGISTER(CLOCKS + CLK_SYS) = 0; /* the source of AUXSRC may change while it is not used */
	REGISTER(CLOCKS + CLK_SYS) = SYS_FROM_AUX;
	wait_for(CLOCKS + CLK_SYS + CLOCK_SELECTED, BIT(SYS_FROM_AUX));
	REGISTER(CLOCKS + CLK_PERI) = PERI_ENABLE;
}

static void configure(uint32_t pin, uint32_t function)
{
	PIN_CONTROL(pin) = function;
	PAD(pin) = PAD_SETTING;
}

void board_start(void)
{
	start_clocks();
	release(BLOCK_IO_BANK0 | BLOCK_PADS_BANK0 | BLOCK_UART0);
	REGISTER(SIO + OUT_SET) = BIT(PIN);
	REGISTER(SIO + OUT_ENABLE_SET) = BIT(PIN);
	configure(PIN, FUNCTION_SIO);
	configure(PIN_TX, FUNCTION_UART);
	configure(PIN_RX, FUNCTION_UART);
	uart_start();
}

void port_pulse(void)
{
	uint64_t begin = port_ticks();

	REGISTER(SIO + OUT_CLEAR) = BIT(PIN);
	while (port_ticks() - begin < PULSE_TICKS)
		;
	REGISTER(SIO + OUT_SET) = BIT(PIN);
}
