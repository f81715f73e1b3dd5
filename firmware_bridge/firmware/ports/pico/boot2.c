/* The second stage of the RP2040's boot: the boot ROM copies the first 256 bytes of the flash to RAM, checks their CRC,
 * and jumps to them. They let the flash be read as memory, and jump to the firmware.
 *
 * The flash is read with the command 03h, one bit at a time, which all chips have. It is slower than four bits: a word
 * that is not in the cache of 16 KiB takes 256 cycles.
 *
 * Source: RP2040 datasheet, 2.8.1.3 (second stage, CRC), 4.10.13 (registers of the SSI); raspberrypi/pico-sdk,
 * src/rp2040/hardware_regs, ssi.h. */
#include <stdint.h>

#define SSI 0x18000000
#define CLOCK_DIVISOR 4 /* of 125 MHz: 31 MHz, of the 50 MHz that chips accept for this command */
/* CTRLR0: 32 clocks a frame; EEPROM read: command and address are sent, then data are received. */
#define FRAMES (31 << 16 | 3 << 8)
/* SPI_CTRLR0: the command, its 8 bits, and 24 bits of address, in units of 4 bits. */
#define READ_COMMAND (0x03 << 24 | 2 << 8 | 6 << 2)
#define VECTORS 0x10000200 /* startup.c aligns them to 512 */
#define VECTOR_TABLE 0xe000ed08
#define CRC 0x7f8fa5a0 /* of the 252 bytes before it, by a test */
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

void __attribute__((naked, used, section(".boot2"))) boot2(void);
void boot2(void)
{
	__asm__ volatile(
		".balign 256\n"
		"1:\tldr r0, =" TEXT(SSI) "\n\t"
		"movs r1, #0\n\t"
		"str r1, [r0, #0x08]\n\t" /* SSIENR: off */
		"movs r1, #" TEXT(CLOCK_DIVISOR) "\n\t"
		"str r1, [r0, #0x14]\n\t" /* BAUDR */
		"ldr r1, =" TEXT(FRAMES) "\n\t"
		"str r1, [r0, #0x00]\n\t" /* CTRLR0 */
		"movs r1, #0\n\t"
		"str r1, [r0, #0x04]\n\t" /* CTRLR1: a frame for a read */
		"ldr r2, =" TEXT(SSI) " + 0xf4\n\t"
		"ldr r1, =" TEXT(READ_COMMAND) "\n\t"
		"str r1, [r2]\n\t" /* SPI_CTRLR0 */
		"movs r1, #1\n\t"
		"str r1, [r0, #0x08]\n\t" /* SSIENR: on */
		"ldr r0, =" TEXT(VECTORS) "\n\t"
		"ldr r1, =" TEXT(VECTOR_TABLE) "\n\t"
		"str r0, [r1]\n\t"
		"ldmia r0!, {r1, r2}\n\t"
		"msr msp, r1\n\t"
		"bx r2\n\t"
		".ltorg\n\t"
		".org 1b + 252\n\t"
		".word " TEXT(CRC));
}
