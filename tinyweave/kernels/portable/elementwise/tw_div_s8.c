/* tw_div_s8.c - int8 quotient with broadcasting, portable C. */
#include "tw_binary.h"

#include "tw_softmax.h"

/* The quotient of two numbers of at most 9 bits, in units of the output's scale, as LiteRT computes it from the reciprocal of
 * the divisor. Where LiteRT would shift right by more than 31, it is 0. */
static int32_t quotient(const tw_mul *p, int32_t x, int32_t y)
{
    int32_t headroom = 31, shift;
    uint32_t divisor = (uint32_t)(y < 0 ? -y : y);
    x = y < 0 ? -x : x;
    for (int32_t rest = x < 0 ? ~x : x; rest > 0; rest >>= 1) {
        --headroom;
    }
    shift = p->shift - 31 - headroom;
    for (; divisor < 1u << 31; ++shift) {
        divisor <<= 1;
    }
    const int32_t exact = tw_high_mul(tw_shift_left(x, headroom), tw_one_over_one_plus((int32_t)(divisor - (1u << 31))));
    return shift < -31 ? 0 : tw_requantize(exact, p->multiplier, shift);
}

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void div_run(const tw_mul *p, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                    int32_t count)
{
    const int32_t low = p->out_min - p->out_zero, high = p->out_max - p->out_zero;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t x = *a - p->a_zero, y = *b - p->b_zero;
        const int32_t scaled = y ? quotient(p, x, y) : x < 0 ? low : x > 0 ? high : 0;
        *to++ = (int8_t)(tw_clamp(scaled, low, high) + p->out_zero);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_div_s8, tw_mul, div_run)
