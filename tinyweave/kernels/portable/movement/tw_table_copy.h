/* tw_table_copy.h - elements from places that tables list: gather, resize_nearest_neighbor, mirror_pad and the like. */
#ifndef TW_TABLE_COPY_H
#define TW_TABLE_COPY_H

#include "tw.h"

/* out[i][j][k] = the run at in + i * step + row[j] + col[k], or a run of `value` where row[j] or col[k] is negative. */
typedef struct {
    int32_t count, step;      /* maps, and bytes from one to the next, may be negative or 0 */
    int32_t rows, cols;
    const int32_t *row, *col; /* bytes */
    int32_t run;              /* bytes, at least one element */
    int32_t value;            /* of a byte */
} tw_tables;

/* Each output may read all of the input: no ranges. Needs no scratch. */
void tw_table_copy(const tw_tables *p, const void *in, void *out);

#endif
