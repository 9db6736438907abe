/* stream_weights.h - the constants of stream.c, generated from stream.tflite. Do not edit. */
#ifndef STREAM_WEIGHTS_H
#define STREAM_WEIGHTS_H

#include <stdint.h>

/* [2][3][1][4] */
static const int8_t conv_2d_4_weights[24] = {
    -116, -79, -42, -5, 32, 69, 106, -112, -75, -38, -1, 36, 73, 110, -108, -71, -34, 3, 40,
    77, 114, -104, -67, -30,
};

static const int32_t conv_2d_4_multiplier[2] = {1374389504, 1374389504};

static const int8_t conv_2d_4_shift[2] = {-6, -6};

/* [1][1] */
static const int8_t add_6_weights[1] = {1};

#endif
