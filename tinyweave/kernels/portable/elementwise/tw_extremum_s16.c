/* tw_extremum_s16.c - the smaller or the larger of two int16 operands with broadcasting, portable C. */
#include "tw_binary.h"

TW_EACH_S16_FORM(tw_extremum_s16, tw_extremum, int16_t, int16_t, (x > y) == (p->larger != 0) ? x : y)
