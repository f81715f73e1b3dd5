/* A board of edgebench: its line is the UART that is chosen as zephyr,console. The timestamp pin is that
 * of the alias edgebench-pin in an overlay; without it, there is no energy mode. */
#include <edgebench.h>
#include <zephyr/device.h>
#include <zephyr/drivers/gpio.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>
#include <zephyr/timing/timing.h>

#define LINE_NODE DT_CHOSEN(zephyr_console)
#define PIN_NODE DT_ALIAS(edgebench_pin)
#define MODEL_BYTES (64 * 1024)
#define RAM_BYTES (64 * 1024)
#define DURATIONS_MAX 1024
#define RECEIVED_MAX 4096u /* a power of two, and more than two frames */
#define BYTE_US (10000000u / DT_PROP(LINE_NODE, current_speed))
#define FIFO_MAX 128u /* the largest of the UARTs that Zephyr supports */

static const struct device *const line = DEVICE_DT_GET(LINE_NODE);
static uint8_t model[MODEL_BYTES] __aligned(16);
static uint8_t ram[RAM_BYTES] __aligned(16);
static uint32_t durations[DURATIONS_MAX];
static volatile uint8_t received[RECEIVED_MAX];
static volatile uint32_t received_count, taken_count;

static void receive(const struct device *uart, void *context)
{
	uint8_t byte;

	ARG_UNUSED(context);
	while (uart_irq_update(uart) && uart_irq_rx_ready(uart)) {
		while (uart_fifo_read(uart, &byte, 1) == 1) {
			if (received_count - taken_count < RECEIVED_MAX) {
				received[received_count % RECEIVED_MAX] = byte;
				received_count++;
			}
		}
	}
}

/* uart_poll_out returns when a byte is in the FIFO; the wait is until it is sent, so that the line is
 * idle in a timed window. */
static void write_line(const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uart_poll_out(line, (unsigned char)data[i]);
	}
	k_busy_wait((uint32_t)(MIN(size, FIFO_MAX) + 1) * BYTE_US);
}

static uint64_t ticks(void) { return edgebench_widen((uint32_t)timing_counter_get()); }

#if DT_NODE_HAS_STATUS(PIN_NODE, okay)
static const struct gpio_dt_spec pin = GPIO_DT_SPEC_GET(PIN_NODE, gpios);

static void pulse(void)
{
	gpio_pin_set_raw(pin.port, pin.pin, 0);
	k_busy_wait(100);
	gpio_pin_set_raw(pin.port, pin.pin, 1);
}
#endif

int main(void)
{
	struct edgebench_board board = {
		.name = CONFIG_BOARD,
		.cpu = CONFIG_ARCH,
		.tick_source = "timing_counter",
		.ticks = ticks,
		.write = write_line,
		.model = model,
		.model_bytes = sizeof(model),
		.ram = ram,
		.ram_bytes = sizeof(ram),
		.durations = durations,
		.durations_max = DURATIONS_MAX,
	};

	timing_init();
	timing_start();
	board.tick_hz = timing_freq_get();
#if DT_NODE_HAS_STATUS(PIN_NODE, okay)
	if (gpio_pin_configure(pin.port, pin.pin, GPIO_OUTPUT | GPIO_OUTPUT_INIT_HIGH) == 0) {
		board.pulse = pulse;
	}
#endif
	if (!device_is_ready(line) || uart_irq_callback_user_data_set(line, receive, NULL) != 0) {
		return 0;
	}
	uart_irq_rx_enable(line);
	edgebench_start(&board, false);
	for (;;) {
		if (received_count != taken_count) {
			uint8_t byte = received[taken_count % RECEIVED_MAX];

			taken_count++; /* from here on its place may be overwritten */
			edgebench_receive(byte);
		} else {
			edgebench_poll();
		}
	}
}
