/* What the profile of an export uses of Zephyr. */
#include <stdint.h>
uint32_t k_cycle_get_32(void);
