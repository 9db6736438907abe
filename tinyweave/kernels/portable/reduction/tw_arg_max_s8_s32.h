/* tw_arg_max_s8_s32.h - where along an axis the largest int8 element lies, as int32. */
#ifndef TW_ARG_MAX_S8_S32_H
#define TW_ARG_MAX_S8_S32_H

#include "tw_arg_max.h"

/* Each output reads a whole axis of the input: no ranges. Needs no scratch. */
void tw_arg_max_s8_s32(const tw_arg_max *p, const void *in, void *out);

#endif
