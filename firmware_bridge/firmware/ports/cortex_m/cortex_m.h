/* What boards with a Cortex-M share, and what each of them brings.
 *
 * A board's folder has board.h (BOARD, CPU, CLOCK_HZ, IS_UNTESTED, TICK_SOURCE, RECEIVE_INTERRUPT,
 * EXTERNAL_INTERRUPTS, WAIT), a linker script, and the functions below; with port_pulse and
 * port_write of device/port.h. Its counter is in ports/cycle_counter, or ports/systick; its UART may be
 * that of ports/pl011. */
#ifndef CORTEX_M_H
#define CORTEX_M_H

#include <stdint.h>

#include "board.h"

#if !defined(STARTS_IN_ENERGY_MODE)
#define STARTS_IN_ENERGY_MODE 0
#endif
/* As MLPerf Tiny's hosts expect: mlcommons/tiny, benchmark/runner, devices.yaml. */
#define LINE_SPEED (STARTS_IN_ENERGY_MODE ? 9600u : 115200u)

/* How long a pulse is, in cycles: 100 us, ten samples of a PPK2's logic input. It lies within the window,
 * of which it is 10 ppm or less. */
#define PULSE_TICKS (CLOCK_HZ / 10000u)

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define BIT(number) (1u << (number))

/* SysTick: Armv7-M Architecture Reference Manual (Arm DDI 0403E), B3.3. */
#define SYSTICK_CONTROL REGISTER(0xe000e010u)
#define SYSTICK_RELOAD REGISTER(0xe000e014u)
#define SYSTICK_VALUE REGISTER(0xe000e018u)
#define SYSTICK_PERIOD 0x1000000u
#define SYSTICK_RUNS 7 /* by the clock of the processor, with interrupt */

/* Clocks, line and pin; the line receives from now on, by RECEIVE_INTERRUPT. */
void board_start(void);
void receive_handler(void);
/* What receive_handler does with each byte. */
void keep_received(uint8_t byte);

void counter_start(void);
void systick_handler(void);

#endif
