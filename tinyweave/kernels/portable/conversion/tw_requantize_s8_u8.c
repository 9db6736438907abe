/* tw_requantize_s8_u8.c - int8 to uint8 of another scale, portable C. */
#include "tw_requantize.h"

TW_ELEMENTWISE_FORMS(tw_requantize_s8_u8, tw_requantization, int8_t, uint8_t, tw_requantize_element(p, from[i]))
