/* tw_mul_s16.c - int16 product with broadcasting, portable C. */
#include "tw_binary.h"

TW_EACH_S16_FORM(tw_mul_s16, tw_mul, int16_t, int16_t, tw_mul_element(p, x, y))
