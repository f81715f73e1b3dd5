/* Calls the callback of the UART from another thread, as an interrupt does. */
#include <pthread.h>
#include <stdatomic.h>
#include <zephyr/device.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>
#include <zephyr/timing/timing.h>

#include "../pipes.h"

const struct device uart_double = {"double"};
static uart_irq_callback_user_data_t callback;
static void *context;
static int next_byte;

int uart_irq_callback_user_data_set(const struct device *dev, uart_irq_callback_user_data_t cb, void *user_data)
{
	callback = cb, context = user_data;
	return dev == &uart_double ? 0 : -22;
}

static void *interrupts(void *unused)
{
	for (;;)
		if ((next_byte = pipe_read()) >= 0)
			callback(&uart_double, context);
	return unused;
}

void uart_irq_rx_enable(const struct device *dev)
{
	pthread_t thread;

	(void)dev;
	pthread_create(&thread, NULL, interrupts, NULL);
}

int uart_irq_update(const struct device *dev) { return dev == &uart_double; }
int uart_irq_rx_ready(const struct device *dev) { return dev && next_byte >= 0; }

int uart_fifo_read(const struct device *dev, uint8_t *rx_data, const int size)
{
	if (!dev || size < 1 || next_byte < 0)
		return 0;
	*rx_data = (uint8_t)next_byte;
	next_byte = -1;
	return 1;
}

void uart_poll_out(const struct device *dev, unsigned char out_char)
{
	if (dev)
		pipe_write(&out_char, 1);
}

void k_busy_wait(uint32_t usec_to_wait) { (void)usec_to_wait; }

static uint32_t started;

void timing_init(void) {}
void timing_start(void) { started = nanoseconds(); }
timing_t timing_counter_get(void) { return started ? nanoseconds() - started : 0; }
uint64_t timing_freq_get(void) { return 1000000000; }
