/* tw_quotient_mve.h - averages of four sums at a time with the Arm MVE extension. */
#ifndef TW_QUOTIENT_MVE_H
#define TW_QUOTIENT_MVE_H

#include "tw_mve.h"

#if TW_HAS_MVE

/* What all outputs of a window share: the sum of away_from over its pixels, half as many as its pixels, and 2^31 / pixels,
 * rounded up. As half the count of one pixel is 1 here, its reciprocal of 2^31 - 1 gives exact quotients, too. */
typedef struct { int32_t away_sum, half, reciprocal; } tw_quotient;

static inline tw_quotient tw_quotient_of(int32_t away_from, int32_t count)
{
    const tw_quotient by = {away_from * count, count > 1 ? count / 2 : 1, count > 1 ? INT32_MAX / count + 1 : INT32_MAX};
    return by;
}

/* The averages of four sums, less away_from, rounded half away from it. VQDMULH multiplies by the reciprocal, and rounds down,
 * which is exact if the sums are less than 2^31 / pixels in magnitude. */
static inline int32x4_t tw_quotients(int32x4_t sums, const tw_quotient *by)
{
    const int32x4_t distances = vsubq_n_s32(sums, by->away_sum), signs = vshrq_n_s32(distances, 31);
    const int32x4_t magnitudes = vqdmulhq_n_s32(vaddq_n_s32(vabsq_s32(distances), by->half), by->reciprocal);
    return vsubq_s32(veorq_s32(magnitudes, signs), signs);
}

#endif

#endif
