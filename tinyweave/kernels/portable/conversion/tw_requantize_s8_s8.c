/* tw_requantize_s8_s8.c - int8 to int8 of another scale, portable C. */
#include "tw_requantize.h"

TW_ELEMENTWISE_FORMS(tw_requantize_s8_s8, tw_requantization, int8_t, int8_t, tw_requantize_element(p, from[i]))
