/* Memory of the firmware itself, by its linker script. */
#ifndef STACK_H
#define STACK_H

#include <stddef.h>
#include <stdint.h>

/* As port_paint_stack and port_stack_peak of device/port.h. */
void paint_stack(void);
size_t stack_peak(void);
size_t stack_size(void);

extern uint8_t code_size[], data_size[]; /* their addresses are the sizes */

#endif
