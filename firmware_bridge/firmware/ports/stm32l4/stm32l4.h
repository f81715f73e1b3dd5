/* Addresses of the STM32L4 and STM32L4+. Sources: RM0351 and RM0432, memory map. */
#ifndef STM32L4_H
#define STM32L4_H

#define PWR 0x40007000u
#define RCC 0x40021000u
#define FLASH 0x40022000u
#define GPIO_A 0x48000000u
#define GPIO_CLOCKS (RCC + 0x4c) /* AHB2ENR */
#define APB1_CLOCKS (RCC + 0x58) /* APB1ENR1 */
#define APB1_CLOCKS_2 (RCC + 0x5c)
#define LINE_CLOCK_HZ CLOCK_HZ

#endif
