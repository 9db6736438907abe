/* tw_conv_2d_s8_dsp.c - int8 convolution with the Arm DSP extension: im2col of two pixels, then tw_pair_s8.c. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_pair_s8.h"

TW_CONV_PAIRS_FORMS(tw_conv_2d_s8_dsp, tw_pair_products_s8)
