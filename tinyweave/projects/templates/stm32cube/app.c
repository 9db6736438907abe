/* @{name}_app.c - the example on a board of ST: prints by the HAL's UART. Define TW_UART as yours: -DTW_UART=huart3. */
#include "@{name}_app.h"

#include <string.h>

#include "main.h"
#include "@{name}_example.h"

#ifndef TW_UART
#define TW_UART huart2
#endif

extern UART_HandleTypeDef TW_UART;

static void print(const char *text)
{
    (void)HAL_UART_Transmit(&TW_UART, (const uint8_t *)text, (uint16_t)strlen(text), HAL_MAX_DELAY);
}

int @{name}_app(void) { return @{name}_example(print); }
