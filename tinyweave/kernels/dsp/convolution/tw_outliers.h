/* tw_outliers.h - filters whose sums or rescaling the fast arithmetic of the Arm DSP extension cannot hold.
 *
 * Outliers are computed one filter at a time, with sums of 32 bits that wrap and tw_requantize, as portable kernels do. The
 * table: the count of outliers; for each its output channel, its bias (less the input's zero point times the weights), its
 * multiplier and shift, then its weights of 16 bits, two to a word and padded with zeros to four. Weights have their zero point
 * subtracted, so they may exceed int8. Of a dense convolution they are in the order of the im2col buffer of tw_pair.h, of a
 * depthwise one row by row of the window.
 */
#ifndef TW_OUTLIERS_H
#define TW_OUTLIERS_H

#include "tw_dsp.h"
#include "tw_pair.h"

#define TW_OUTLIER_WORDS 4 /* of a filter before its weights */

/* The output of a sum, clamped to -128 .. 127. */
static inline int8_t tw_outlier_output(int32_t sum, const uint32_t *filter, int32_t zero)
{
    const int32_t scaled = tw_requantize(sum, tw_signed(filter[2]), tw_signed(filter[3]));
    return (int8_t)(tw_clamp(scaled, -128 - zero, 127 - zero) + zero);
}

/* Two pixels times all outliers. Writes their outputs, clamped to -128 .. 127, over those of tw_pair_products, which are of filters of zeros. */
void tw_add_outliers(const uint32_t *outliers, const tw_pair *pair);

#endif
