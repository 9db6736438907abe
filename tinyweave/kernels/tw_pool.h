/* tw_pool.h - the parameters of an int8 pooling window; input and output share their quantisation. */
#ifndef TW_POOL_H
#define TW_POOL_H

#include "tw.h"

typedef struct {
    tw_shape in, out;
    tw_size kernel, stride;
    tw_size pad;               /* rows above, columns left of the map; every window must hold a part of the map */
    int32_t away_from;         /* averages round halves away from it: 0, or -128 where the model was uint8 */
    int32_t out_min, out_max;  /* the fused activation's clamp, within -128 .. 127 */
} tw_pool;

#endif
