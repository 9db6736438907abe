/* What the example uses of ST's HAL. */
#include <stdint.h>
#define HAL_MAX_DELAY 0xFFFFFFFFu
typedef enum { HAL_OK } HAL_StatusTypeDef;
typedef struct { uint32_t instance; } UART_HandleTypeDef;
HAL_StatusTypeDef HAL_UART_Transmit(UART_HandleTypeDef *uart, const uint8_t *data, uint16_t bytes, uint32_t timeout);
