/* tw_softmax_table_dsp.h - softmax of large maps, with a table of exponentials. */
#ifndef TW_SOFTMAX_TABLE_DSP_H
#define TW_SOFTMAX_TABLE_DSP_H

#include "tw_softmax.h"

typedef struct {
    tw_softmax softmax;
    const int32_t *exponentials;  /* in Q31, of the differences 0, -1, ... down to -255 or difference_min */
} tw_softmax_table_dsp;

/* The same as tw_softmax_s8. Needs no scratch; out may alias in. */
TW_DECLARE_FORMS(tw_softmax_s8_table_dsp, tw_softmax_table_dsp);

#endif
