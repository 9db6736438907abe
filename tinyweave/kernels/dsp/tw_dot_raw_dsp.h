/* tw_dot_raw_dsp.h - tw_dot4 with the Arm DSP extension, with sums modulo 2^32. */
#ifndef TW_DOT_RAW_DSP_H
#define TW_DOT_RAW_DSP_H

#include "tw_dot.h"
#include "tw_dsp.h"

/* tw_dot4 of the inputs from x to `end`, a multiple of 4, at least 4; zeros: lanes of the negated zero point. */
void tw_dot4_quads_dsp(const int8_t *x, const int8_t *end, const int8_t *weights, int32_t filter, uint32_t zeros, int32_t *sums);

/* tw_dot4 of any number of inputs. */
static inline void tw_dot4_raw_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count,
                                   int32_t *sums)
{
    const int32_t whole = count & ~3;
    if (whole > 0) {
        tw_dot4_quads_dsp(x, x + whole, weights, filter, tw_lanes(-zero, -zero), sums);
    }
    if (whole < count) {
        tw_dot4(x + whole, zero, weights + whole, filter, count - whole, sums);
    }
}

#endif
