/* tw_fully_connected_s8_raw_dsp.c - int8 dense layer with the Arm DSP extension whose weights are those of the portable kernel,
 * [filter][input]. It has no more constants than that kernel, and holds for all weights, biases and shifts.
 *
 * Cost: that of tw_dot_raw_dsp.c; of a single filter 8 instructions per 4 MACs (tw_dot_dsp.c).
 */
#include "tw_fully_connected.h"

#include "tw_dot_dsp.h"
#include "tw_dot_raw_dsp.h"

/* A tw_products. */
static inline void raw_products(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                                int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    (void)first_in; /* is 0 */
    if (filters == 4) {
        tw_dot4_raw_dsp(pixel, zero, weights + first, filter, count, sums);
    } else {
        for (int32_t i = 0; i < filters; ++i) {
            tw_dot1_dsp(pixel, zero, weights + i * filter + first, count, sums + i);
        }
    }
}

TW_DENSE_FORMS(tw_fully_connected_s8_raw_dsp, tw_fully_connected, p, p->layer.in.c, 0, raw_products)
