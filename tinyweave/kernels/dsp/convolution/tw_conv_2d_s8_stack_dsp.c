/* tw_conv_2d_s8_stack_dsp.c - tw_conv_2d_s8_dsp for windows that are so small that their scratch fits the stack. */
#include "tw_conv_dsp.h"

#include "tw_conv_pairs.h"
#include "tw_pair_s8.h"

void tw_conv_2d_s8_stack_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range)
{
    uint32_t scratch[TW_CONV_STACK_SCRATCH / 4];
    tw_conv_pairs(p, in, out, range, scratch, tw_pair_products_s8);
}

void tw_conv_2d_s8_stack_dsp(const tw_conv_dsp *p, const void *in, void *out)
{
    uint32_t scratch[TW_CONV_STACK_SCRATCH / 4];
    tw_conv_pairs(p, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), tw_all(p->conv.out), scratch, tw_pair_products_s8);
}
