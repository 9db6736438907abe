/* tw_log_softmax_s8.h - int8 logarithm of a softmax over the channels of each pixel, portable C. */
#ifndef TW_LOG_SOFTMAX_S8_H
#define TW_LOG_SOFTMAX_S8_H

#include "tw.h"

typedef struct {
    tw_shape shape;                              /* of input and output */
    int32_t multiplier, left_shift;              /* from x - max to Q5.26; Q31 */
    int32_t reverse_multiplier, reverse_shift;   /* and back */
    int32_t difference_min;                      /* below it the exponential is 0 */
} tw_log_softmax;

/* The output's scale is 1/16, its zero point 127. Needs no scratch; out may lie over in. */
void tw_log_softmax_s8(const tw_log_softmax *p, const void *in, void *out);

/* The same for a range, from and to parts of maps. */
void tw_log_softmax_s8_part(const tw_log_softmax *p, tw_view in, tw_view out, tw_range range);

#endif
