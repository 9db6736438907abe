/* tw_add_s16.c - int16 sum or difference with broadcasting, portable C. */
#include "tw_binary.h"

/* The element of an operand that belongs to an element of the output. */
static int32_t element(const int16_t *data, tw_extents operand, const int32_t *at)
{
    const int32_t n = operand.n == 1 ? 0 : at[0], y = operand.h == 1 ? 0 : at[1];
    const int32_t x = operand.w == 1 ? 0 : at[2], channel = operand.c == 1 ? 0 : at[3];
    return data[((n * operand.h + y) * operand.w + x) * operand.c + channel];
}

void tw_add_s16(const tw_add *p, const void *a, const void *b, void *out)
{
    int16_t *to = (int16_t *)out;
    int32_t at[4];
    for (at[0] = 0; at[0] < p->out.n; ++at[0]) {
        for (at[1] = 0; at[1] < p->out.h; ++at[1]) {
            for (at[2] = 0; at[2] < p->out.w; ++at[2]) {
                for (at[3] = 0; at[3] < p->out.c; ++at[3]) {
                    const int32_t x_a = tw_shift_left(element((const int16_t *)a, p->a, at) - p->a_zero, p->left_shift);
                    const int32_t x_b = tw_shift_left(element((const int16_t *)b, p->b, at) - p->b_zero, p->left_shift);
                    const int32_t scaled_a = tw_requantize(x_a, p->a_multiplier, p->a_shift);
                    const int32_t scaled_b = tw_requantize(x_b, p->b_multiplier, p->b_shift);
                    const int32_t sum = tw_requantize(scaled_a + p->b_sign * scaled_b, p->out_multiplier, p->out_shift);
                    *to++ = (int16_t)tw_clamp(sum + p->out_zero, p->out_min, p->out_max);
                }
            }
        }
    }
}
