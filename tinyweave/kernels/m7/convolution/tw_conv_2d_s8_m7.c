/* tw_conv_2d_s8_m7.c - int8 convolution with the Arm DSP extension, in the order that suits a Cortex-M7. */
#include "tw_conv_2d_s8_m7.h"

#include "tw_conv_pairs.h"
#include "tw_pair_s8_m7.h"

TW_FORMS_SCRATCH(tw_conv_2d_s8_m7, tw_conv_dsp, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out,
                 tw_conv_pairs(p, in, out, range, scratch, tw_pair_products_s8_m7))
