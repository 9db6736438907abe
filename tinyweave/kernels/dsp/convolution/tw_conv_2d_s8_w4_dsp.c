/* tw_conv_2d_s8_w4_dsp.c - convolution of int8 maps with int4 weights, with the Arm DSP extension: im2col of two pixels,
 * then tw_pair_w4.c. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_pair_w4.h"

TW_CONV_PAIRS_FORMS(tw_conv_2d_s8_w4_dsp, tw_pair_products_w4)
