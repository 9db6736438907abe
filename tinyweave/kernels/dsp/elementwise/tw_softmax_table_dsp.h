/* tw_softmax_table_dsp.h - softmax of large maps, with a table of exponentials. */
#ifndef TW_SOFTMAX_TABLE_DSP_H
#define TW_SOFTMAX_TABLE_DSP_H

#include "tw_softmax.h"

typedef struct {
    tw_softmax softmax;
    const int32_t *exponentials;  /* in Q31, of the differences 0, -1, ... down to -255 or difference_min */
} tw_softmax_table_dsp;

/* The same as tw_softmax_s8. Needs no scratch; out may alias in. */
void tw_softmax_s8_table_dsp(const tw_softmax_table_dsp *p, const void *in, void *out);
void tw_softmax_s8_table_dsp_part(const tw_softmax_table_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
