/* tw_mean_s8.c - int8 mean over any axes, portable C: the specification of every faster variant. */
#include "tw_reduction.h"

#include "tw_sums.h"

static int8_t finish(const tw_mean *p, int32_t sum)
{
    const int32_t scaled = tw_requantize(sum, p->multiplier, p->shift);
    return (int8_t)(tw_clamp(scaled, -128 - p->out_zero, 127 - p->out_zero) + p->out_zero);
}

void tw_mean_s8(const tw_mean *p, const void *in, void *out)
{
    /* where only pixels are added, [reduced[0]][kept[1]] is taken for [1][1][reduced[0]][kept[1]] */
    const int pixels = p->reduced[1] == 1 && p->kept[2] == 1;
    const int32_t rows = pixels ? 1 : p->reduced[0], times = pixels ? 1 : p->kept[1];
    const int32_t cols = pixels ? p->reduced[0] : p->reduced[1], inner = pixels ? p->kept[1] : p->kept[2];
    const int32_t middle = cols * inner;  /* from an element of `times` to the next */
    const int32_t outer = times * middle; /* of `rows` */
    const int32_t zeros = p->in_zero * rows * cols;
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out;

    for (int32_t i = 0; i < p->kept[0]; ++i, from += rows * outer) {
        for (int32_t j = 0; j < times; ++j) {
            for (int32_t k = 0; k < inner; k += 4) {
                const int8_t *x = from + j * middle + k;
                const int32_t channels = tw_min(inner - k, 4);
                int32_t sums[4] = {-zeros, -zeros, -zeros, -zeros};
                for (int32_t r = 0; r < rows; ++r) {
                    tw_sums_add_four(sums, channels, x + r * outer, inner, cols);
                }
                for (int32_t channel = 0; channel < channels; ++channel) {
                    *to++ = finish(p, sums[channel]);
                }
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
    tw_sums_add(sums, channels, &in, range, -p->in_zero * p->reduced[0]);
    if (range.row_end * range.col_end == p->reduced[0]) {
        for (int32_t channel = 0; channel < channels; ++channel) {
            ((int8_t *)out)[channel] = finish(p, sums[channel]);
        }
    }
}
