#pragma once
#include <zephyr/device.h>

typedef uint8_t gpio_pin_t;
typedef uint32_t gpio_flags_t;
struct gpio_dt_spec {
	const struct device *port;
	gpio_pin_t pin;
};
#define GPIO_DT_SPEC_GET(node, property) {&uart_double, 0}
#define GPIO_OUTPUT 1u
#define GPIO_OUTPUT_INIT_HIGH 2u
static inline int gpio_pin_configure(const struct device *port, gpio_pin_t pin, gpio_flags_t flags)
{
	return port == &uart_double && pin == 0 && flags == 3u ? 0 : -22;
}
static inline int gpio_pin_set_raw(const struct device *port, gpio_pin_t pin, int value)
{
	return port && pin == 0 && value < 2 ? 0 : -22;
}
