/* Addresses of the STM32F4 and STM32F7. Sources: STMicroelectronics/cmsis_device_f4 and cmsis_device_f7. */
#ifndef STM32F_H
#define STM32F_H

#define PWR 0x40007000u
#define GPIO_A 0x40020000u
#define RCC 0x40023800u
#define FLASH 0x40023c00u
#define GPIO_CLOCKS (RCC + 0x30) /* AHB1ENR */
#define LINE_CLOCKS (RCC + 0x40) /* APB1ENR */
#define LINE_CLOCK_HZ (CLOCK_HZ / 4)

#endif
