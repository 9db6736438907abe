/* tw_outliers.c - two pixels times the filters whose sums or rescaling a pair cannot hold, with the Arm DSP extension. */
#include "tw_outliers.h"

void tw_add_outliers(const uint32_t *outliers, const tw_pair *pair)
{
    const uint32_t *filter = outliers + 1;
    for (uint32_t count = outliers[0]; count > 0; --count) {
        const uint32_t *weights = filter + TW_OUTLIER_WORDS;
        int32_t sum_0 = tw_signed(filter[1]), sum_1 = sum_0;
        for (const uint32_t *x = pair->x; x != pair->x_end; x += 4) {
            const uint32_t even = weights[0], odd = weights[1];
            sum_0 = tw_smlad(x[0], even, sum_0);
            sum_1 = tw_smlad(x[1], even, sum_1);
            sum_0 = tw_smlad(x[2], odd, sum_0);
            sum_1 = tw_smlad(x[3], odd, sum_1);
            weights += 2;
        }
        /* of one pixel alone, to_0 is to_1 and is written last */
        pair->to_1[filter[0]] = tw_outlier_output(sum_1, filter, pair->zero);
        pair->to_0[filter[0]] = tw_outlier_output(sum_0, filter, pair->zero);
        filter = weights;
    }
}
