/* tw_resizer.h - resizes a picture line by line: box filter where an axis shrinks, bilinear where it grows, in exact integers.
 *
 * A value of the result is the weighted mean of values of the picture, rounded once: floor(sum / total + 1/2). Along an axis
 * that shrinks, a weight is how much of the pixel lies within the output's; along one that grows, it is that of the linear
 * interpolation between the centres of two pixels, and the outermost pixels go on beyond the edge.
 */
#ifndef TW_RESIZER_H
#define TW_RESIZER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_RESIZER_MOST_WEIGHTS (1 << 24) /* of all weights of a value: their sums with pixels fit 32 bits */

/* Bytes of the sums, and how many lines are held; the lines themselves belong to the caller. */
#define TW_RESIZER_SUM_BYTES(out_width, channels) (4 * (out_width) * (channels))
#define TW_RESIZER_LINES(height, out_height) ((out_height) > (height) ? 2 : 1)

/* One axis. step, units: input and output size without their common factor. total: of the weights of one output position. */
typedef struct { int32_t in, out, step, units, total; } tw_axis;

typedef struct {
    tw_axis rows, columns;
    int32_t channels;
    uint32_t *sums;    /* TW_RESIZER_SUM_BYTES */
    uint8_t *lines[2]; /* line l lies in lines[l % 2] where the rows grow, else in lines[0] */
    int32_t next_line; /* the first one that was not read */
} tw_resizer;

/* Reads a line of the picture, of `in` pixels: 0, or what tw_resizer_row shall return. Lines come in order, each once. */
typedef int32_t (*tw_resizer_read)(void *user, int32_t line, uint8_t *pixels);

/* Begin a picture. Return 0, or -1 for sizes below 1 or above 4096, or with more than TW_RESIZER_MOST_WEIGHTS.
   lines: TW_RESIZER_LINES of them, the second may be NULL where that is 1. */
int32_t tw_resizer_begin(tw_resizer *resizer, int32_t height, int32_t width, int32_t out_height, int32_t out_width,
                         int32_t channels, uint32_t *sums, uint8_t *line, uint8_t *other_line);

/* Write a row of the result, out_width * channels values; rows in order, each once. values: 256, what stands for a pixel. */
int32_t tw_resizer_row(tw_resizer *resizer, int32_t row, tw_resizer_read read, void *user, const int8_t *values,
                       int8_t *out);

#ifdef __cplusplus
}
#endif

#endif
