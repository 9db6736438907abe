/* tw_add_s8.c - int8 sum or difference with broadcasting, portable C: the specification of every faster variant. */
#include "tw_binary.h"

TW_EACH_S8_FORM(tw_add_s8, tw_add, tw_add_element(p, x, y))
