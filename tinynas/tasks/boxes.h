/* Boxes out of a detector's head, in integers: the same bytes as the Python that its accuracy was measured with. */
#ifndef BOXES_H
#define BOXES_H

#include <stdint.h>

#include "boxes_tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Edges in pixels of the network's image times 1 << BOXES_UNIT_BITS; bottom and right lie one behind the last pixel.
   score: a probability times 1 << BOXES_PROBABILITY_BITS. label: 0 .. BOXES_CLASSES - 1. */
typedef struct {
    int16_t top, left, bottom, right;
    uint16_t score, label;
} tw_box;

/* Write the boxes of a head [BOXES_ROWS][BOXES_COLUMNS][BOXES_ANCHORS][5 + BOXES_SCORES] whose score is at least the threshold,
   the best first, and return how many they are. boxes: room for BOXES_MOST of them, all of which may be written. */
int32_t tw_boxes(const int8_t *head, uint16_t threshold, tw_box *boxes);

#ifdef __cplusplus
}
#endif

#endif
