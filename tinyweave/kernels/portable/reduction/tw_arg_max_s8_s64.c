/* tw_arg_max_s8_s64.c - where along an axis the largest or smallest int8 element lies, as int64, portable C. */
#include "tw_reduction.h"

TW_ARG_MAX_FORM(tw_arg_max_s8_s64, int64_t)
