#pragma once
#include "../pipes.h"

typedef uint32_t esp_cpu_cycle_count_t;
static inline esp_cpu_cycle_count_t esp_cpu_get_cycle_count(void) { return nanoseconds(); }
