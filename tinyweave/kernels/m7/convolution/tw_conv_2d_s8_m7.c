/* tw_conv_2d_s8_m7.c - tw_conv_2d_s8_dsp scheduled for a Cortex-M7: im2col of two pixels, then tw_pair_s8_m7.c. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_pair_s8_m7.h"

TW_CONV_PAIRS_FORMS(tw_conv_2d_s8_m7, tw_pair_products_s8_m7)
