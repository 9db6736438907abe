/* tw_conv_pairs.h - dense convolutions with the Arm DSP extension: gathers the windows of two pixels and multiplies both. */
#ifndef TW_CONV_PAIRS_H
#define TW_CONV_PAIRS_H

#include "tw_conv_dsp.h"
#include "tw_pair.h"

/* A range of the output. The inputs of a window come row by row, of each row as many as make fours; then what is left over of
 * all rows; then zeros up to a multiple of four.
 * scratch: aligned to words; 16 bytes per four inputs of a window; where pixels are no whole words, room for what is left over
 * of all rows of both, and before that, where windows meet padding, for a row; each rounded up to words. Reads the windows of
 * two pixels before it writes either. */
void tw_conv_pairs(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch, tw_pair_products *products);

/* Defines both forms of such a kernel. */
#define TW_CONV_PAIRS_FORMS(kernel, products)                                                        \
    void kernel##_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch) \
    {                                                                                                \
        tw_conv_pairs(p, in, out, range, scratch, products);                                         \
    }                                                                                                \
    TW_WHOLE_FORM_SCRATCH(kernel, tw_conv_dsp, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)

/* The whole output; copies the stream to scratch first, where the rest of it lies behind. */
void tw_conv_pairs_copying(const tw_conv_dsp *p, const void *in, void *out, void *scratch, tw_pair_products *products);

#endif
