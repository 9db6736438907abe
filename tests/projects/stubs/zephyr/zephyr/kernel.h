/* Functions of Zephyr that the profile of an export calls. */
#include <stdint.h>
uint32_t k_cycle_get_32(void);
