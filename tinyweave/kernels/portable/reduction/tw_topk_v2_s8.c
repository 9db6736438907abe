/* tw_topk_v2_s8.c - the k largest int8 elements of each row and their places, portable C. */
#include "tw_reduction.h"

void tw_topk_v2_s8(const tw_topk_v2 *p, const void *in, void *values, void *indices)
{
    const int8_t *from = (const int8_t *)in;
    int8_t *value = (int8_t *)values;
    int32_t *index = (int32_t *)indices;

    for (int32_t row = 0; row < p->rows; ++row, from += p->depth) {
        int32_t last = 128, last_at = -1; /* what was found last; the next one is smaller, or equal and behind it */
        for (int32_t j = 0; j < p->k; ++j) {
            int32_t best = -129, best_at = 0;
            for (int32_t i = 0; i < p->depth; ++i) {
                const int32_t x = from[i];
                if (x > best && (x < last || (x == last && i > last_at))) {
                    best = x;
                    best_at = i;
                }
            }
            last = best;
            last_at = best_at;
            *value++ = (int8_t)best;
            *index++ = best_at;
        }
    }
}
