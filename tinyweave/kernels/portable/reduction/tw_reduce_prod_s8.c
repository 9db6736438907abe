/* tw_reduce_prod_s8.c - int8 product over any axes, portable C. */
#include "tw_reduction.h"

#include "tw_conv_s16.h"

void tw_reduce_prod_s8(const tw_reduce_prod *p, const void *in, void *out)
{
    const int32_t inner = p->kept[2];              /* from an element of reduced[1] to the next */
    const int32_t middle = p->reduced[1] * inner;  /* of kept[1] */
    const int32_t outer = p->kept[1] * middle;     /* of reduced[0] */
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out;

    for (int32_t i = 0; i < p->kept[0]; ++i, from += p->reduced[0] * outer) {
        for (int32_t j = 0; j < p->kept[1]; ++j) {
            for (int32_t k = 0; k < inner; ++k) {
                const int8_t *first = from + j * middle + k;
                int64_t product = *first - p->in_zero;
                for (int32_t r = 0; r < p->reduced[0]; ++r) {
                    for (int32_t s = r == 0; s < p->reduced[1]; ++s) {
                        product *= first[r * outer + s * inner] - p->in_zero;
                        product = tw_requantize_wide(product, p->multiplier, p->shift);
                    }
                }
                const int32_t scaled = tw_requantize_wide(product, p->multiplier, p->shift);
                *to++ = (int8_t)(tw_clamp(scaled, -128 - p->out_zero, 127 - p->out_zero) + p->out_zero);
            }
        }
    }
}
