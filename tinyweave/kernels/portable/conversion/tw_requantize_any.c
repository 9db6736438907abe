/* tw_requantize_any.c - integers to integers of another size and scale, portable C. */
#include "tw_requantize.h"

void tw_requantize_any(const tw_requantization_any *p, const void *in, void *out)
{
    const tw_requantization scale = p->scale; /* a copy, since stores through `out` might change the original */
    const int32_t count = scale.shape.h * scale.shape.w * scale.shape.c;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t x = p->in_bytes == 1   ? ((const int8_t *)in)[i]
                          : p->in_bytes == 2 ? ((const int16_t *)in)[i]
                                             : ((const int32_t *)in)[i];
        const int32_t y = tw_requantize_element(&scale, x);
        if (p->out_bytes == 1) {
            ((int8_t *)out)[i] = (int8_t)y;
        } else if (p->out_bytes == 2) {
            ((int16_t *)out)[i] = (int16_t)y;
        } else {
            ((int32_t *)out)[i] = y;
        }
    }
}
