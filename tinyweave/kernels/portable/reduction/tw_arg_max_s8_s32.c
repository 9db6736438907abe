/* tw_arg_max_s8_s32.c - where along an axis the largest or smallest int8 element lies, as int32, portable C. */
#include "tw_reduction.h"

TW_ARG_MAX_FORM(tw_arg_max_s8_s32, int32_t)
