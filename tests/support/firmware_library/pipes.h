/* A serial line as standard input and output, for the doubles of three frameworks. */
#ifndef PIPES_H
#define PIPES_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The next byte, or -1 after a millisecond without one; the process ends with its input. */
static inline int pipe_read(void)
{
	struct pollfd line = {0, POLLIN, 0};
	uint8_t byte;

	if (poll(&line, 1, 1) == 0)
		return -1;
	if (read(0, &byte, 1) != 1)
		exit(0);
	return byte;
}

static inline void pipe_write(const void *data, size_t size)
{
	if (write(1, data, size) != (ssize_t)size)
		exit(1);
}

static inline uint32_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

#endif
