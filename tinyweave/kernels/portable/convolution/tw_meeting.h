/* tw_meeting.h - which taps of a transposed convolution meet an input. */
#ifndef TW_MEETING_H
#define TW_MEETING_H

#include "tw.h"

/* Along one axis: the first tap that meets an input, that input, and how many do; the taps lie a stride apart. */
typedef struct { int32_t tap, from, count; } tw_meeting;

static inline tw_meeting tw_meet(int32_t at, int32_t kernel, int32_t stride, int32_t size)
{
    tw_meeting found;
    found.from = at / stride;
    found.tap = at - found.from * stride;
    if (found.from >= size) {
        found.tap += (found.from - (size - 1)) * stride;
        found.from = size - 1;
    }
    const int32_t taps = found.tap < kernel ? (kernel - 1 - found.tap) / stride + 1 : 0;
    found.count = tw_min(taps, found.from + 1);
    return found;
}

#endif
