/* Common parts of boards with a Cortex-M, and the parts that each board provides.
 *
 * A board's folder has board.h (BOARD, CPU, CLOCK_HZ, IS_UNTESTED, TICK_SOURCE, RECEIVE_INTERRUPT,
 * EXTERNAL_INTERRUPTS, WAIT) and a linker script. The functions below, with port_pulse and port_write of
 * device/port.h, are there or in a folder of its family (ports/stm32, ports/nrf52840, ports/rp2). Its counter is in
 * ports/cycle_counter, or ports/systick; its UART may be that of ports/pl011. */
#ifndef CORTEX_M_H
#define CORTEX_M_H

#include <stdint.h>

#include "board.h"

#if !defined(STARTS_IN_ENERGY_MODE)
#define STARTS_IN_ENERGY_MODE 0
#endif
/* The speed that MLPerf Tiny's hosts expect: mlcommons/tiny, benchmark/runner, devices.yaml. */
#define LINE_SPEED (STARTS_IN_ENERGY_MODE ? 9600u : 115200u)

/* Duration of a pulse in cycles: 100 us, ten samples of a PPK2's logic input. It is within the window,
 * of which it is 10 ppm or less. */
#define PULSE_TICKS (CLOCK_HZ / 10000u)

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define BIT(number) (1u << (number))

/* SysTick: Armv7-M Architecture Reference Manual (Arm DDI 0403E), B3.3. */
#define SYSTICK_CONTROL REGISTER(0xe000e010u)
#define SYSTICK_RELOAD REGISTER(0xe000e014u)
#define SYSTICK_VALUE REGISTER(0xe000e018u)
#define SYSTICK_PERIOD 0x1000000u
#define SYSTICK_RUNS 7 /* with the clock of the processor, and interrupts */

/* Start clocks, line and pin; the line starts to receive, by RECEIVE_INTERRUPT. */
void board_start(void);
void receive_handler(void);
/* receive_handler calls this for each byte. */
void keep_received(uint8_t byte);

void counter_start(void);
void systick_handler(void);

#endif
