/* tw_mul_s8.c - int8 product with broadcasting, portable C: the specification of every faster variant. */
#include "tw_binary.h"

TW_EACH_S8_FORM(tw_mul_s8, tw_mul, tw_mul_element(p, x, y))
