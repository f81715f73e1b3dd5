/* The part of ESP-IDF's API that the example uses. Source: docs.espressif.com, ESP-IDF 5. */
#pragma once
#include <esp_err.h>
#include <stdint.h>

typedef enum { GPIO_NUM_4 = 4 } gpio_num_t;
typedef enum { GPIO_MODE_OUTPUT = 2 } gpio_mode_t;

/* An output that begins low is a pulse, which a meter takes for a timestamp. */
static uint32_t gpio_level;

static inline esp_err_t gpio_set_direction(gpio_num_t gpio_num, gpio_mode_t mode)
{
	return gpio_num && mode && gpio_level == 1 ? 0 : -1;
}

static inline esp_err_t gpio_set_level(gpio_num_t gpio_num, uint32_t level)
{
	gpio_level = level;
	return gpio_num && level < 2 ? 0 : -1;
}
