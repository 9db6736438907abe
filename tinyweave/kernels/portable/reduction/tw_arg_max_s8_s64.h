/* tw_arg_max_s8_s64.h - where along an axis the largest int8 element lies, as int64. */
#ifndef TW_ARG_MAX_S8_S64_H
#define TW_ARG_MAX_S8_S64_H

#include "tw_arg_max.h"

/* Each output reads a whole axis of the input: no ranges. Needs no scratch. */
void tw_arg_max_s8_s64(const tw_arg_max *p, const void *in, void *out);

#endif
