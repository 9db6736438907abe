/* tw_requantize_table_dsp.c - one-byte integers to one-byte integers of another scale, by table: fewer cycles than the arithmetic
 * for 256 bytes of Flash. The table is indexed by bytes as if they were int8. */
#include "tw_activation.h"

TW_FORMS(tw_requantize_table_dsp, tw_lookup, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape,
         tw_lookup_over(p, in, out, range))
