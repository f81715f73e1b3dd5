/* Addresses of the STM32H7 with a single core. Source: STMicroelectronics/cmsis_device_h7, Include/stm32h743xx.h. */
#ifndef STM32H7_H
#define STM32H7_H

#define PWR 0x58024800u
#define RCC 0x58024400u
#define FLASH 0x52002000u
#define GPIO_A 0x58020000u
#define GPIO_CLOCKS (RCC + 0xe0) /* AHB4ENR */
#define LINE_CLOCKS (RCC + 0xe8) /* APB1LENR */
#define LINE_CLOCK_HZ (CLOCK_HZ / 4)

#endif
