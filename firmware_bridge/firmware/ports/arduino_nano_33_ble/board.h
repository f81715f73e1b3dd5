/* Arduino Nano 33 BLE, and its variants Sense and Sense Rev2: nRF52840, Cortex-M4F.
 *
 * Serial line: TX (P1.03) and RX (P1.10), 3.3 V, with a serial adapter: the USB port of the board belongs to the
 * processor, and needs a driver. Sources: zephyrproject-rtos/zephyr, boards/arduino/nano_33_ble (pins);
 * hathach/tinyusb, hw/bsp/nrf (start of flash). */
#ifndef BOARD_H
#define BOARD_H

#include "ports/nrf52840/nrf52840.h"

#define BOARD "arduino-nano-33-ble"
#define IS_UNTESTED 1
/* Timestamp pin: D2, P1.11. */
enum { LINE_TX = PORT_1 + 3, LINE_RX = PORT_1 + 10, PIN = PORT_1 + 11 };

#endif
