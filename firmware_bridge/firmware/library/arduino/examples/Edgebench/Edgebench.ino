/* A board of edgebench: models and inputs arrive over a Stream, and inferences are timed by the
 * processor's cycle counter, or by micros().
 *
 * For a board whose serial port has no USB, with a receive buffer of less than 256 bytes, raise the
 * buffer: a frame arrives while the one before it is checked. */
#include <edgebench.h>

#define BOARD "arduino"
#define CPU "unknown" /* such as "cortex-m4"; a name for reports only */
#define LINE Serial
#define SPEED 115200
#define PIN 2 /* timestamp pin, for an energy meter */
#define MODEL_BYTES (48 * 1024)
#define RAM_BYTES (32 * 1024)
#define DURATIONS 256

#if !defined(ESP32) && defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(F_CPU)
/* Armv7-M Architecture Reference Manual (Arm DDI 0403E), C1.6.5 and C1.8. */
#define DEBUG_CONTROL (*(volatile uint32_t *)0xe000edfc)
#define DWT_CONTROL (*(volatile uint32_t *)0xe0001000)
#define CYCLE_COUNTER (*(volatile uint32_t *)0xe0001004)
#endif

alignas(16) static uint8_t model[MODEL_BYTES];
alignas(16) static uint8_t ram[RAM_BYTES];
static uint32_t durations[DURATIONS];

static uint64_t microseconds() { return edgebench_widen((uint32_t)micros()); }

#if defined(ESP32)
static uint64_t cycles() { return edgebench_widen(ESP.getCycleCount()); }

static void choose_counter(edgebench_board *board)
{
  board->ticks = cycles;
  board->tick_hz = 1000000ull * getCpuFrequencyMhz();
  board->tick_source = "ccount";
}
#elif defined(CYCLE_COUNTER)
static uint64_t cycles() { return edgebench_widen(CYCLE_COUNTER); }

/* Some boards lock the counter. */
static void choose_counter(edgebench_board *board)
{
  DEBUG_CONTROL |= 1ul << 24;
  DWT_CONTROL |= 1;
  uint32_t begin = CYCLE_COUNTER;
  delay(1);
  if (CYCLE_COUNTER == begin)
    return;
  board->ticks = cycles;
  board->tick_hz = F_CPU;
  board->tick_source = "cyccnt";
}
#else
static void choose_counter(edgebench_board *) {}
#endif

/* Returns when all is sent, so that no byte is sent in a timed window. */
static void write_line(const char *data, size_t size)
{
  LINE.write((const uint8_t *)data, size);
  LINE.flush();
}

static void pulse()
{
  digitalWrite(PIN, LOW);
  delayMicroseconds(100);
  digitalWrite(PIN, HIGH);
}

void setup()
{
  LINE.begin(SPEED);
  /* High before it is an output, and after it on cores that ignore the first write. */
  digitalWrite(PIN, HIGH);
  pinMode(PIN, OUTPUT);
  digitalWrite(PIN, HIGH);
  edgebench_board board = {};
  board.name = BOARD;
  board.cpu = CPU;
  board.ticks = microseconds;
  board.tick_hz = 1000000;
  board.tick_source = "micros";
  board.write = write_line;
  board.pulse = pulse;
  board.model = model;
  board.model_bytes = sizeof model;
  board.ram = ram;
  board.ram_bytes = sizeof ram;
  board.durations = durations;
  board.durations_max = DURATIONS;
  choose_counter(&board);
  edgebench_start(&board, false);
}

void loop()
{
  int byte = LINE.read();

  if (byte >= 0)
    edgebench_receive((uint8_t)byte);
  else
    edgebench_poll();
}
