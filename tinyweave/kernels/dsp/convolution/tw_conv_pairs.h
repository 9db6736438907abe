/* tw_conv_pairs.h - dense convolutions with the Arm DSP extension: im2col of two pixels, then one of the inner loops of
 * tw_pair.h. */
#ifndef TW_CONV_PAIRS_H
#define TW_CONV_PAIRS_H

#include "tw_conv_dsp.h"
#include "tw_pair.h"

/* Computes a range of the output. Order of the inputs, which is also that of the weights: row by row of the window the whole
 * quads; then the tails of all rows, row after row; then zeros up to a quad. scratch, aligned to words: the im2col buffer, 16
 * bytes per quad of a window; if a pixel is not whole words and windows reach into padding, one row of a window; if a row of a
 * window is not whole quads, the tails of both windows. Each part is rounded up to words. Both windows are read before either
 * pixel is written. */
void tw_conv_pairs(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch, tw_pair_products *products);

/* Defines both forms of a kernel with the given inner loop. */
#define TW_CONV_PAIRS_FORMS(kernel, products)                                                        \
    void kernel##_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch) \
    {                                                                                                \
        tw_conv_pairs(p, in, out, range, scratch, products);                                         \
    }                                                                                                \
    TW_WHOLE_FORM_SCRATCH(kernel, tw_conv_dsp, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)

/* Computes the whole output. Copies the stream to the beginning of the scratch first; what tw_conv_pairs needs follows it. */
void tw_conv_pairs_copying(const tw_conv_dsp *p, const void *in, void *out, void *scratch, tw_pair_products *products);

#endif
