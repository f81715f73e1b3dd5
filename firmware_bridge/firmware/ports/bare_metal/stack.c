#include "ports/bare_metal/stack.h"

#define PAINT 0xa5a5a5a5u
#define MARGIN 16 /* words below the pointer, which a function may move after it has read it */
#if defined(__riscv)
#define MOVE "mv"
#else
#define MOVE "mov"
#endif

extern uint32_t stack_bottom[], stack_top[];

void paint_stack(void)
{
	uint32_t *pointer;

	__asm__ volatile(MOVE " %0, sp" : "=r"(pointer));
	for (volatile uint32_t *word = stack_bottom; word < pointer - MARGIN; word++)
		*word = PAINT;
}

size_t stack_peak(void)
{
	const volatile uint32_t *word = stack_bottom;

	while (*word == PAINT)
		word++;
	return (uintptr_t)stack_top - (uintptr_t)word;
}

size_t stack_size(void) { return (uintptr_t)stack_top - (uintptr_t)stack_bottom; }
