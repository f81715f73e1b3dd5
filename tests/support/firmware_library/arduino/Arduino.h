/* The part of Arduino's API that the sketch uses. Source: docs.arduino.cc, language reference. */
#pragma once
#include "../pipes.h"

enum { LOW, HIGH };
enum { INPUT, OUTPUT };

class Stream {
public:
  void begin(unsigned long) {}
  int read() { return pipe_read(); }
  size_t write(const uint8_t *data, size_t size) { pipe_write(data, size); return size; }
  void flush() {}
};

static Stream Serial;
static inline unsigned long micros() { return nanoseconds() / 1000; }
static inline void delay(unsigned long) {}
static inline void delayMicroseconds(unsigned int) {}

/* An output that begins low is a pulse, which a meter takes for a timestamp. */
static uint8_t pin_level;
static inline void pinMode(uint8_t, uint8_t mode)
{
  if (mode == OUTPUT && pin_level != HIGH)
    abort();
}
static inline void digitalWrite(uint8_t, uint8_t level) { pin_level = level; }
