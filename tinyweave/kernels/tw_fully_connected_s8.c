/* tw_fully_connected_s8.c - int8 dense layer, portable C: the specification of every faster variant.
 *
 * Four output channels share each input.
 */
#include "tw_fully_connected_s8.h"

#include "tw_dot.h"

int8_t tw_fully_connected_rescale(const tw_fully_connected *p, int32_t channel, int32_t sum)
{
    const int32_t index = p->per_channel ? channel : 0;
    const int32_t scaled = tw_requantize_once(tw_add_bias(sum, p->bias, channel), p->multiplier[index], p->shift[index]);
    return (int8_t)(tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero);
}

void tw_fully_connected_s8_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth = p->in.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, depth);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int8_t *weights = p->weights;
            int32_t channel = 0;
            while (channel < p->out.c) {
                const int32_t filters = p->out.c - channel >= 4 ? 4 : 1;
                int32_t sums[4] = {0, 0, 0, 0};
                if (filters == 4) {
                    tw_dot4(from, p->in_zero, weights, depth, depth, sums);
                } else {
                    tw_dot1(from, p->in_zero, weights, depth, sums);
                }
                weights += filters * depth;
                for (int32_t i = 0; i < filters; ++i, ++channel) {
                    *to++ = tw_fully_connected_rescale(p, channel, sums[i]);
                }
            }
            from += depth;
        }
    }
}

void tw_fully_connected_s8(const tw_fully_connected *p, const void *in, void *out)
{
    tw_fully_connected_s8_part(p, tw_whole(in, p->in), tw_whole(out, p->out), tw_all(p->out));
}
