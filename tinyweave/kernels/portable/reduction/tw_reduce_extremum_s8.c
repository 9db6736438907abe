/* tw_reduce_extremum_s8.c - int8 maximum or minimum over any axes, portable C. */
#include "tw_reduction.h"

void tw_reduce_extremum_s8(const tw_reduce_extremum *p, const void *in, void *out)
{
    const int32_t inner = p->kept[2];              /* from an element of reduced[1] to the next */
    const int32_t middle = p->reduced[1] * inner;  /* of kept[1] */
    const int32_t outer = p->kept[1] * middle;     /* of reduced[0] */
    const int32_t larger = p->larger != 0;
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out;

    for (int32_t i = 0; i < p->kept[0]; ++i, from += p->reduced[0] * outer) {
        for (int32_t j = 0; j < p->kept[1]; ++j) {
            for (int32_t k = 0; k < inner; ++k) {
                int8_t best = from[j * middle + k];
                for (int32_t r = 0; r < p->reduced[0]; ++r) {
                    const int8_t *x = from + r * outer + j * middle + k;
                    for (int32_t s = 0; s < p->reduced[1]; ++s) {
                        best = (*x > best) == larger ? *x : best;
                        x += inner;
                    }
                }
                *to++ = best;
            }
        }
    }
}
