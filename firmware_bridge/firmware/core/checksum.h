#ifndef CORE_CHECKSUM_H
#define CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 of zlib, PNG and Ethernet (ISO 3309). Begin with crc = 0; pass the last result to continue. */
uint32_t crc32(uint32_t crc, const void *data, size_t size);

#endif
