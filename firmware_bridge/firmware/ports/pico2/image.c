/* Source: RP2350 datasheet, by section. */
#include <stdint.h>

/* 5.9.5.1: the smallest definition of an image for Arm; without it the boot ROM does not start it. The
 * vector table is at the beginning of the flash, where the boot ROM expects it. */
static const uint32_t IMAGE_DEFINITION[] __attribute__((section(".image_definition"), used)) = {
	0xffffded3u, 0x10210142u, 0x000001ffu, 0x00000000u, 0xab123579u,
};
