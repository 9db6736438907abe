/* tw_extremum_s8.c - the smaller or the larger of two int8 operands with broadcasting, portable C. */
#include "tw_binary.h"

TW_EACH_S8_FORM(tw_extremum_s8, tw_extremum, (x > y) == (p->larger != 0) ? x : y)
