/* tw_max_pool_2d_s8.c - int8 maximum over a window, portable C: the specification of every faster variant. */
#include "tw_pool.h"

TW_MAX_POOL_FORMS(tw_max_pool_2d_s8)
