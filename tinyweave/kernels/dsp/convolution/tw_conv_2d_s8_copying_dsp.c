/* tw_conv_2d_s8_copying_dsp.c - tw_conv_2d_s8_dsp that copies its weights to RAM first, for Flash with wait states. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_pair_s8.h"

void tw_conv_2d_s8_copying_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch)
{
    tw_conv_pairs_copying(p, in, out, scratch, tw_pair_products_s8);
}
