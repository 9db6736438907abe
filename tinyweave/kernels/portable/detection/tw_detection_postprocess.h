/* tw_detection_postprocess.h - boxes, classes and scores of objects, from the output of an SSD. */
#ifndef TW_DETECTION_POSTPROCESS_H
#define TW_DETECTION_POSTPROCESS_H

#include "tw.h"

/* Encoded boxes are [anchors][coordinates], of which the first four count: centre row, centre column, height, width. Scores are
 * [anchors][columns]; those of the classes begin at column `first`. */
typedef struct {
    int32_t anchors, coordinates, columns, first, classes;
    int32_t most;          /* detections of the output */
    int32_t most_of_class; /* where each class is suppressed by itself; 0: where all are suppressed together, by their best class */
    int32_t least;         /* the lowest score that counts; 128: none */
    float overlap;         /* of two boxes, intersection by union: above it the box with the lower score is dropped */
    int32_t box_zero, score_zero;
    float box_scale, score_scale;
    float centre_scale[2];      /* that encoded centres are divided by: rows, columns */
    const double *half_size[2]; /* half the exponential of each encoded height and width; int8, from -128 on */
    const float *at;            /* [anchors][4]: centre row, centre column, height, width */
} tw_detection;

/* A detection. */
typedef struct { uint16_t anchor, label; int16_t score; } tw_found;

/* Outputs are float: boxes [most][4] with first row, first column, last row and last column, classes and scores [most], 0
 * behind the last detection, and the number of detections. They must not overlap the inputs. The scratch has a tw_found per
 * detection, an int16 per anchor, 257 int16 and, where all classes are suppressed together, a byte per anchor. */
void tw_detection_postprocess_s8(const tw_detection *p, const void *boxes, const void *scores, void *out_boxes, void *out_classes,
                                 void *out_scores, void *out_count, void *scratch);

#endif
