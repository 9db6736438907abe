/* tw_mean_s16.c - int16 mean over any axes, portable C. */
#include "tw_reduction.h"

void tw_mean_s16(const tw_mean *p, const void *in, void *out)
{
    const int32_t inner = p->kept[2], middle = p->reduced[1] * inner, outer = p->kept[1] * middle;
    const int16_t *from = (const int16_t *)in;
    int16_t *to = (int16_t *)out;

    for (int32_t i = 0; i < p->kept[0]; ++i, from += p->reduced[0] * outer) {
        for (int32_t j = 0; j < p->kept[1]; ++j) {
            for (int32_t k = 0; k < inner; ++k) {
                int32_t sum = 0; /* modulo 2^32, as TFLite's sum of very many values */
                for (int32_t row = 0; row < p->reduced[0]; ++row) {
                    const int16_t *x = from + row * outer + j * middle + k;
                    for (int32_t col = 0; col < p->reduced[1]; ++col) {
                        sum = (int32_t)((uint32_t)sum + (uint32_t)x[col * inner]);
                    }
                }
                *to++ = (int16_t)tw_clamp(tw_requantize(sum, p->multiplier, p->shift), INT16_MIN, INT16_MAX);
            }
        }
    }
}
