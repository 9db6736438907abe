/* tw_conv_2d_s8_outliers_dsp.c - int8 convolution with the Arm DSP extension, some of whose filters are computed one at a time:
 * im2col of two pixels, then tw_pair_s8.c and tw_outliers.c. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_outliers.h"
#include "tw_pair_s8.h"

/* A tw_pair_products. */
static void products(tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    const int32_t groups = ((int32_t)(pair->to_0_end - pair->to_0) + 3) / 4, quads = (int32_t)(pair->x_end - pair->x) / 4;
    tw_pair_products_s8(pair, stream, sign);
    tw_add_outliers(stream + 4 * groups * (3 + quads), pair);
}

TW_CONV_PAIRS_FORMS(tw_conv_2d_s8_outliers_dsp, products)
