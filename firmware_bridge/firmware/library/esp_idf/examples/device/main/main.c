/* A board of edgebench: its line is UART 0, which most boards connect to USB. */
#include <driver/gpio.h>
#include <driver/uart.h>
#include <edgebench.h>
#include <esp_cpu.h>
#include <esp_err.h>
#include <esp_rom_sys.h>
#include <freertos/FreeRTOS.h>
#include <sdkconfig.h>

#define LINE UART_NUM_0
#define SPEED 115200
#define PIN GPIO_NUM_4 /* timestamp pin */
#define MODEL_BYTES (64 * 1024)
#define RAM_BYTES (64 * 1024)
#define DURATIONS_MAX 1024
#define RECEIVED_MAX 4096 /* more than two frames */

static uint8_t model[MODEL_BYTES] __attribute__((aligned(16)));
static uint8_t ram[RAM_BYTES] __attribute__((aligned(16)));
static uint32_t durations[DURATIONS_MAX];

static uint64_t ticks(void) { return edgebench_widen((uint32_t)esp_cpu_get_cycle_count()); }

static void write_line(const char *data, size_t size)
{
	uart_write_bytes(LINE, data, size);
	uart_wait_tx_done(LINE, portMAX_DELAY);
}

static void pulse(void)
{
	gpio_set_level(PIN, 0);
	esp_rom_delay_us(100);
	gpio_set_level(PIN, 1);
}

static void start_line(void)
{
	const uart_config_t setting = {
		.baud_rate = SPEED,
		.data_bits = UART_DATA_8_BITS,
		.parity = UART_PARITY_DISABLE,
		.stop_bits = UART_STOP_BITS_1,
		.flow_ctrl = UART_HW_FLOWCTRL_DISABLE,
		.source_clk = UART_SCLK_DEFAULT,
	};

	ESP_ERROR_CHECK(uart_driver_install(LINE, RECEIVED_MAX, 0, 0, NULL, 0));
	ESP_ERROR_CHECK(uart_param_config(LINE, &setting));
	ESP_ERROR_CHECK(gpio_set_level(PIN, 1)); /* before it is an output */
	ESP_ERROR_CHECK(gpio_set_direction(PIN, GPIO_MODE_OUTPUT));
}

void app_main(void)
{
	struct edgebench_board board = {
		.name = CONFIG_IDF_TARGET,
		.cpu = CONFIG_IDF_TARGET,
		.tick_source = "cycle_count",
		.tick_hz = 1000000ull * esp_rom_get_cpu_ticks_per_us(),
		.ticks = ticks,
		.write = write_line,
		.pulse = pulse,
		.model = model,
		.model_bytes = sizeof model,
		.ram = ram,
		.ram_bytes = sizeof ram,
		.durations = durations,
		.durations_max = DURATIONS_MAX,
	};

	start_line();
	edgebench_start(&board, false);
	for (;;) {
		uint8_t byte;

		if (uart_read_bytes(LINE, &byte, 1, edgebench_is_busy() ? 0 : 1) == 1)
			edgebench_receive(byte);
		else
			edgebench_poll();
	}
}
