/* tw_select_v2.c - each element from one of two operands, as a condition says, with broadcasting, portable C. */
#include "tw_binary.h"

#include <string.h>

/* What the output pixel (n, y, x) reads of an operand whose elements have `bytes` bytes. */
static const uint8_t *pixel(const void *operand, tw_extents e, int32_t n, int32_t y, int32_t x, int32_t bytes)
{
    const int32_t row = (e.n == 1 ? 0 : n * e.h) + (e.h == 1 ? 0 : y);
    return (const uint8_t *)operand + (row * e.w + (e.w == 1 ? 0 : x)) * e.c * bytes;
}

void tw_select_v2(const tw_select *p, const void *condition, const void *a, const void *b, void *out)
{
    const int32_t bytes = p->bytes, step = p->condition.c == 1 ? 0 : 1;
    const int32_t a_step = p->a.c == 1 ? 0 : bytes, b_step = p->b.c == 1 ? 0 : bytes;
    uint8_t *to = (uint8_t *)out;

    for (int32_t n = 0; n < p->out.n; ++n) {
        for (int32_t y = 0; y < p->out.h; ++y) {
            for (int32_t x = 0; x < p->out.w; ++x) {
                const uint8_t *which = pixel(condition, p->condition, n, y, x, 1);
                const uint8_t *from_a = pixel(a, p->a, n, y, x, bytes), *from_b = pixel(b, p->b, n, y, x, bytes);
                for (int32_t c = 0; c < p->out.c; ++c) {
                    memcpy(to, which[c * step] ? from_a + c * a_step : from_b + c * b_step, (size_t)bytes);
                    to += bytes;
                }
            }
        }
    }
}
