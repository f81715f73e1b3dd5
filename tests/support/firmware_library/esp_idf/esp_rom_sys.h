#pragma once
#include <stdint.h>

static inline uint32_t esp_rom_get_cpu_ticks_per_us(void) { return 1000; }
static inline void esp_rom_delay_us(uint32_t us) { (void)us; }
