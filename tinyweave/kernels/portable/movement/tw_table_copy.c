/* tw_table_copy.c - elements from places that tables list, portable C. */
#include "tw_movement.h"

#include "tw_copy.h"

static void copy_row(const tw_tables *p, const uint8_t *from, uint8_t *to)
{
    for (int32_t k = 0; k < p->cols; ++k) {
        if (p->col[k] < 0) {
            tw_fill(to, p->value, p->run);
        } else if (p->run == 1) {
            *to = from[p->col[k]];
        } else {
            tw_move_bytes(to, from + p->col[k], p->run);
        }
        to += p->run;
    }
}

void tw_table_copy(const tw_tables *p, const void *in, void *out)
{
    const int32_t width = p->cols * p->run;
    uint8_t *to = (uint8_t *)out;
    for (int32_t i = 0; i < p->count; ++i) {
        for (int32_t j = 0; j < p->rows; ++j) {
            if (p->row[j] < 0) {
                tw_fill(to, p->value, width);
            } else {
                copy_row(p, (const uint8_t *)in + (i * p->step + p->row[j]), to);
            }
            to += width;
        }
    }
}
