#pragma once
#include <stdint.h>

typedef uint64_t timing_t;
void timing_init(void);
void timing_start(void);
timing_t timing_counter_get(void);
uint64_t timing_freq_get(void);
