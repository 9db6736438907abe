/* tw_cast.h - numbers of one type as numbers of another, without scales. */
#ifndef TW_CAST_H
#define TW_CAST_H

#include "tw.h"

enum { TW_S8, TW_U8, TW_S16, TW_S32, TW_S64, TW_F32, TW_BOOL };

typedef struct {
    int32_t count;
    int32_t from, to;  /* types */
} tw_casting;

/* Integers keep their low bits; floats lose their fraction and saturate, what is not a number becomes the highest integer.
 * Needs no scratch. */
void tw_cast(const tw_casting *p, const void *in, void *out);

#endif
