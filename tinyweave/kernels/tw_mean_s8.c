/* tw_mean_s8.c - int8 mean over any axes, portable C: the specification of every faster variant. */
#include "tw_mean_s8.h"

#include "tw_sums.h"

static int8_t finish(const tw_mean *p, int32_t sum)
{
    const int32_t scaled = tw_requantize(sum, p->multiplier, p->shift);
    return (int8_t)(tw_clamp(scaled, -128 - p->out_zero, 127 - p->out_zero) + p->out_zero);
}

void tw_mean_s8(const tw_mean *p, const void *in, void *out)
{
    const int32_t inner = p->kept[2];                  /* from an element of reduced[1] to the next */
    const int32_t middle = p->reduced[1] * inner;      /* of kept[1] */
    const int32_t outer = p->kept[1] * middle;         /* of reduced[0] */
    const int32_t zeros = p->in_zero * p->reduced[0] * p->reduced[1];
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out;

    for (int32_t i = 0; i < p->kept[0]; ++i, from += p->reduced[0] * outer) {
        for (int32_t j = 0; j < p->kept[1]; ++j) {
            for (int32_t k = 0; k < inner; ++k) {
                int32_t sum = -zeros;
                for (int32_t r = 0; r < p->reduced[0]; ++r) {
                    const int8_t *x = from + r * outer + j * middle + k;
                    for (int32_t s = 0; s < p->reduced[1]; ++s) {
                        sum += *x;
                        x += inner;
                    }
                }
                *to++ = finish(p, sum);
            }
        }
    }
}

void tw_mean_s8_part(const tw_mean *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->kept[1];
    if (range.col_begin >= range.col_end) {
        return;
    }
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, 0, channels);
        int8_t *to = (int8_t *)tw_pixel(&out, y, 0, channels);
        for (int32_t channel = 0; channel < channels; ++channel) {
            int32_t sum = -p->in_zero * p->reduced[0];
            for (int32_t x = 0; x < p->reduced[0]; ++x) {
                sum += from[x * channels + channel];
            }
            to[channel] = finish(p, sum);
        }
    }
}

void tw_mean_s8_rows(const tw_mean *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t channels = p->kept[1];
    if (range.row_begin == 0) {
        tw_sums_begin(sums, channels, -p->in_zero * p->reduced[0]);
    }
    tw_sums_add(sums, channels, &in, range);
    if (range.row_end * range.col_end == p->reduced[0]) {
        for (int32_t channel = 0; channel < channels; ++channel) {
            ((int8_t *)out)[channel] = finish(p, sums[channel]);
        }
    }
}
