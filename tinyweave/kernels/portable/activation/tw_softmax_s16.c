/* tw_softmax_s16.c - int16 softmax, portable C. */
#include "tw_softmax_s16.h"

/* A table of 513 points for -2^15 .. 2^15 at x, which is clamped to int16. */
static int32_t look_up(const int16_t *table, int32_t x)
{
    const int32_t inside = tw_clamp(x, -32768, 32767);
    const int16_t *at = table + 256 + (inside >> 7);
    return at[0] + (((at[1] - at[0]) * (inside & 127) + 64) >> 7);
}

static int32_t exponential(const tw_softmax_s16_tables *p, int32_t difference)
{
    return look_up(p->exp, tw_requantize(difference, p->multiplier, p->shift) + 32767);
}

void tw_softmax_s16(const tw_softmax_s16_tables *p, const void *in, void *out)
{
    const int16_t *from = (const int16_t *)in;
    int16_t *to = (int16_t *)out;
    for (int32_t i = 0; i < p->shape.h * p->shape.w; ++i) {
        int32_t highest = from[0], shift = 30;
        uint32_t sum = 0;
        for (int32_t j = 1; j < p->shape.c; ++j) {
            highest = tw_max(highest, from[j]);
        }
        for (int32_t j = 0; j < p->shape.c; ++j) {
            sum += (uint32_t)exponential(p, from[j] - highest);
        }
        for (; sum < 1u << 30; --shift) {
            sum <<= 1;
        }
        const int32_t fraction = (int32_t)((sum + (1u << 13)) >> 14); /* in [2^16, 2^17] */
        const int32_t inverse = look_up(p->reciprocal, fraction - (1 << 15) - (1 << 16));
        for (int32_t j = 0; j < p->shape.c; ++j) {
            const int32_t share = exponential(p, *from++ - highest) * inverse + (1 << (shift - 1));
            *to++ = (int16_t)tw_clamp(share >> shift, 0, 32767);
        }
    }
}
