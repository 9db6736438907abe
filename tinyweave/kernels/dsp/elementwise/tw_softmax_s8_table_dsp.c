/* tw_softmax_s8_table_dsp.c - int8 softmax by a table of exponentials: 1,024 bytes of Flash replace about 100 instructions for each
 * of the two exponentials of an element. */
#include "tw_softmax_table_dsp.h"

/* p is the first member of a tw_softmax_table_dsp. */
static inline int32_t listed(const tw_softmax *p, int32_t difference)
{
    return ((const tw_softmax_table_dsp *)(const void *)p)->exponentials[-difference];
}

static void softmax(const tw_softmax_table_dsp *p, const int8_t *from, int8_t *to)
{
    tw_softmax_pixel_s8(&p->softmax, from, to, listed);
}

TW_PIXEL_FORMS(tw_softmax_s8_table_dsp, tw_softmax_table_dsp, &p->softmax, softmax)
