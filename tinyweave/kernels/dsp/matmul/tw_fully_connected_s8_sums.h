/* tw_fully_connected_s8_sums.h - sums of int8 weights, for tw_fully_connected_dsp_loop.h. */
#ifndef TW_FULLY_CONNECTED_S8_SUMS_H
#define TW_FULLY_CONNECTED_S8_SUMS_H

#include "tw_dsp.h"
#include "tw_fully_connected_dsp.h"

#if !TW_HAS_DSP

static inline void add(uint32_t x, const uint32_t *stream, int32_t *sums)
{
    for (int32_t filter = 0; filter < TW_FILTERS; filter += 2) {
        const uint32_t both = *stream++;
        sums[filter] = tw_smlad(x, tw_sxtb16(both), sums[filter]);
        sums[filter + 1] = tw_smlad(x, both, sums[filter + 1]);
    }
}

#endif

static inline int32_t shared_of(const int8_t *from, int32_t depth)
{
    (void)from;
    (void)depth;
    return 0;
}

static inline const void *begin_of(const uint32_t *stream, int32_t shared, int32_t *sums)
{
    (void)shared;
    (void)sums;
    return stream;
}

/* Of a pair of sums as the stream makes them the second has 256 times its own. */
static inline int32_t sum_of(const int32_t *sums, int32_t i)
{
    return i & 1 ? tw_signed((uint32_t)sums[i] - (uint32_t)sums[i - 1]) >> 8 : sums[i];
}

#endif
