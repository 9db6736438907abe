/* tw_conv_2d_s8_dsp.c - int8 convolution, with the Arm DSP extension. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_pair_s8.h"

TW_FORMS_SCRATCH(tw_conv_2d_s8_dsp, tw_conv_dsp, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out,
                 tw_conv_pairs(p, in, out, range, scratch, tw_pair_products_s8))
