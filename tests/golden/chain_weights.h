/* chain_weights.h - the constants of chain.c, generated from chain.tflite. Do not edit. */
#ifndef CHAIN_WEIGHTS_H
#define CHAIN_WEIGHTS_H

#include <stdint.h>

/* [4][3][3][1] */
static const int8_t conv_2d_0_weights[36] = {
    -116, -79, -42, -5, 32, 69, 106, -112, -75, -38, -1, 36, 73, 110, -108, -71, -34, 3, 40,
    77, 114, -104, -67, -30, 7, 44, 81, 118, -100, -63, -26, 11, 48, 85, 122, -96,
};

static const int32_t conv_2d_0_bias[4] = {100, -50, 0, 7};

static const int32_t conv_2d_0_multiplier[4] = {1832519339, 1832519339, 1374389504, 1832519339};

static const int8_t conv_2d_0_shift[4] = {-7, -6, -6, -8};

/* [1][3][3][4] */
static const int8_t depthwise_conv_2d_1_weights[36] = {
    -116, -87, -58, -29, 0, 29, 58, 87, 116, -110, -81, -52, -23, 6, 35, 64, 93, 122, -104,
    -75, -46, -17, 12, 41, 70, 99, -127, -98, -69, -40, -11, 18, 47, 76, 105, -121,
};

static const int32_t depthwise_conv_2d_1_multiplier[4] = {2061584256, 2061584256, 2061584256, 2061584256};

static const int8_t depthwise_conv_2d_1_shift[4] = {-6, -6, -6, -6};

/* [3][4] */
static const int8_t fully_connected_3_weights[12] = {
    -116, -63, -10, 43, 96, -106, -53, 0, 53, 106, -96, -43,
};

static const int32_t fully_connected_3_bias[3] = {1, 2, -3};

static const int64_t fully_connected_3_multiplier[1] = {4722366201394674688};

static const int8_t fully_connected_3_shift[1] = {-7};

#endif
