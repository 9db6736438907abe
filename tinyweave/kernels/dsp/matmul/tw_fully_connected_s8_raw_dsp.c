/* tw_fully_connected_s8_raw_dsp.c - int8 dense layer with the Arm DSP extension whose weights are those of the portable kernel,
 * [filter][input]. It has no more constants than that kernel, and holds for all weights, biases and shifts.
 *
 * Cost: that of tw_dot_raw_dsp.c; of a single filter 8 instructions per 4 MACs (tw_dot_dsp.c).
 */
#include "tw_fully_connected.h"

#include "tw_dot_dsp.h"
#include "tw_dot_raw_dsp.h"
#include "tw_fully_connected_dsp_rows.h"

/* A tw_fully_connected_finish. */
TW_NOT_INLINE void finish(const tw_fully_connected *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *pixel)
{
    const int32_t zero = p->layer.out_zero, low = p->layer.out_min, high = p->layer.out_max;
    tw_factor factor = {0, 0, 0, 0};
    for (int32_t i = channel; i < channel + count; ++i) {
        const int32_t sum = sums[i - channel], index = p->layer.per_channel ? i : 0;
        if (p->layer.shift[index] > -2) {
            pixel[i] = tw_fully_connected_rescale(p, i, sum);
            continue;
        }
        if (index > 0 || i == channel) {
            factor = factor_of(&p->layer, index);
        }
        pixel[i] = (int8_t)tw_clamp(rescale(tw_add_bias(sum, p->bias, i), factor, zero), low, high);
    }
}

/* A tw_products. */
static inline void raw_products(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                                int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    (void)first_in; /* is 0 */
    if (filters == 1) {
        tw_dot1_dsp(pixel, zero, weights + first, count, sums);
    } else {
        tw_dot4_raw_dsp(pixel, zero, weights + first, filter, count, sums);
    }
}

TW_FORMS(tw_fully_connected_s8_raw_dsp, tw_fully_connected, tw_whole(in, p->layer.in), tw_whole(out, p->layer.out), p->layer.out,
         tw_fully_connected_over(p, in, out, range, p->layer.in.c, 0, raw_products, finish))

void tw_fully_connected_s8_raw_dsp_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    tw_fully_connected_over_rows(p, in, out, range, sums, p->layer.in.c, 0, raw_products);
}
