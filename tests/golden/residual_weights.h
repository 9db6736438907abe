/* residual_weights.h - the constants of residual.c, generated from residual.tflite. Do not edit. */
#ifndef RESIDUAL_WEIGHTS_H
#define RESIDUAL_WEIGHTS_H

#include <stdint.h>

/* [4][1][1][4] */
static const int8_t conv_2d_0_weights[16] = {
    -116, -79, -42, -5, 32, 69, 106, -112, -75, -38, -1, 36, 73, 110, -108, -71,
};

static const int32_t conv_2d_0_multiplier[4] = {1145324629, 1145324629, 1145324629, 1145324629};

static const int8_t conv_2d_0_shift[4] = {-5, -5, -5, -5};

#endif
