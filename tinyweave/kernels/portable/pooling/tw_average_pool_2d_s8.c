/* tw_average_pool_2d_s8.c - int8 average over a window, portable C: the specification of every faster variant. */
#include "tw_pool.h"

TW_AVERAGE_POOL_FORMS(tw_average_pool_2d_s8)
