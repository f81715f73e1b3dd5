#pragma once
#include <stdint.h>

#define CONFIG_BOARD "double"
#define CONFIG_ARCH "host"
#define ARG_UNUSED(x) (void)(x)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define __aligned(n) __attribute__((aligned(n)))
void k_busy_wait(uint32_t usec_to_wait);
