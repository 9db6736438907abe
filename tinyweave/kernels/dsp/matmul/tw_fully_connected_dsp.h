/* tw_fully_connected_dsp.h - the parameters of a dense layer whose weights are one stream, for the Arm DSP extension. */
#ifndef TW_FULLY_CONNECTED_DSP_H
#define TW_FULLY_CONNECTED_DSP_H

#include "tw_fully_connected.h"

#define TW_FILTERS 8  /* at a time */

typedef struct {
    tw_fully_connected dense;  /* without weights and bias; all shifts are at most -2 */
    const uint32_t *stream;    /* read forward, in the order that the kernel's header says */
} tw_fully_connected_dsp;

#endif
