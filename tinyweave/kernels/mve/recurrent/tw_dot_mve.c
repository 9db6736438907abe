/* tw_dot_mve.c - products of inputs and weights with the Arm MVE extension, for gru, simple_rnn and stateless_lstm. Cost: 10
 * instructions per 64 MACs. */
#include "tw_dot_mve.h"

#include "tw_mve_dots.h"

void tw_dot_s8_mve(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter, int32_t first,
                   int32_t count, int32_t filters, int32_t *sums)
{
    const tw_mve_sums found = tw_mve_dots(pixel + first_in, weights + first, filters, count);
    (void)zero;
    (void)filter; /* is `count` */
    for (int32_t i = 0; i < filters; ++i) {
        sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)found.of[i]);
    }
}
