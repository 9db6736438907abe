#include "main.h"

#include "chain_app.h"
UART_HandleTypeDef huart2;
uint32_t SystemCoreClock = 16000000;
volatile uint32_t uwTick;
HAL_StatusTypeDef HAL_UART_Transmit(UART_HandleTypeDef *uart, const uint8_t *data, uint16_t bytes, uint32_t timeout)
{
    uart->instance = data[0] + bytes + timeout + SystemCoreClock + uwTick++;
    return HAL_OK;
}
int main(void) { return chain_app(); }
