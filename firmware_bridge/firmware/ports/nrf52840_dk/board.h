/* Nordic Semiconductor nRF52840 DK: nRF52840, Cortex-M4F.
 *
 * Serial line: P0.06 (sends) and P0.08 (receives), which the debugger of the board forwards over USB. */
#ifndef BOARD_H
#define BOARD_H

#include "ports/nrf52840/nrf52840.h"

#define BOARD "nrf52840-dk"
#define IS_UNTESTED 1
/* Timestamp pin: D2 of the Arduino connector, P1.03. */
enum { LINE_TX = 6, LINE_RX = 8, PIN = PORT_1 + 3 };

#endif
