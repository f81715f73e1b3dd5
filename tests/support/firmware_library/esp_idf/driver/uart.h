#pragma once
#include <driver/gpio.h>
#include <freertos/FreeRTOS.h>
#include <stddef.h>

#include "../../pipes.h"

typedef enum { UART_NUM_0 } uart_port_t;
typedef enum { UART_DATA_8_BITS = 3 } uart_word_length_t;
typedef enum { UART_PARITY_DISABLE } uart_parity_t;
typedef enum { UART_STOP_BITS_1 = 1 } uart_stop_bits_t;
typedef enum { UART_HW_FLOWCTRL_DISABLE } uart_hw_flowcontrol_t;
typedef enum { UART_SCLK_DEFAULT = 4 } uart_sclk_t; /* 0 is no clock */
typedef void *QueueHandle_t;
typedef struct {
	int baud_rate;
	uart_word_length_t data_bits;
	uart_parity_t parity;
	uart_stop_bits_t stop_bits;
	uart_hw_flowcontrol_t flow_ctrl;
	uart_sclk_t source_clk;
} uart_config_t;

static inline esp_err_t uart_driver_install(uart_port_t uart_num, int rx_buffer_size, int tx_buffer_size, int queue_size,
					    QueueHandle_t *uart_queue, int intr_alloc_flags)
{
	return uart_num + rx_buffer_size + tx_buffer_size + queue_size + intr_alloc_flags && !uart_queue ? 0 : -1;
}

static inline esp_err_t uart_param_config(uart_port_t uart_num, const uart_config_t *uart_config)
{
	return uart_num == UART_NUM_0 && uart_config->baud_rate == 115200 &&
	       uart_config->source_clk == UART_SCLK_DEFAULT ? 0 : -1;
}

static inline int uart_write_bytes(uart_port_t uart_num, const void *src, size_t size)
{
	(void)uart_num;
	pipe_write(src, size);
	return (int)size;
}

static inline int uart_read_bytes(uart_port_t uart_num, void *buf, uint32_t length, TickType_t ticks_to_wait)
{
	int byte = uart_num == UART_NUM_0 && length && ticks_to_wait < portMAX_DELAY ? pipe_read() : -1;

	if (byte < 0)
		return 0;
	*(uint8_t *)buf = (uint8_t)byte;
	return 1;
}

static inline esp_err_t uart_wait_tx_done(uart_port_t uart_num, TickType_t ticks_to_wait)
{
	return uart_num == UART_NUM_0 && ticks_to_wait == portMAX_DELAY ? 0 : -1;
}
