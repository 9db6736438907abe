/* tw_mean_s8.c - int8 mean over any axes, portable C: the specification of every faster variant. */
#include "tw_reduction.h"

#include "tw_mean.h"

TW_MEAN_FORMS(tw_mean_s8)
