#include "device/port.h"
#include "ports/cortex_m/cortex_m.h"
#include "ports/pl011/pl011.h"

void board_start(void) { uart_start(); }

/* It has no pin. */
void port_pulse(void) {}
