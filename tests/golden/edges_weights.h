/* edges_weights.h - the constants of edges.c, generated from edges.tflite. Do not edit. */
#ifndef EDGES_WEIGHTS_H
#define EDGES_WEIGHTS_H

#include <stdint.h>

/* [2][5] */
static const int8_t fully_connected_1_weights[10] = {-116, -79, -42, -5, 32, 69, 106, -112, -75, -38};

static const int64_t fully_connected_1_multiplier[2] = {4722366201394674688, 4722366201394674688};

static const int8_t fully_connected_1_shift[2] = {-8, -7};

#endif
