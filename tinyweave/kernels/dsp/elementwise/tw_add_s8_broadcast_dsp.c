/* tw_add_s8_broadcast_dsp.c - int8 add or sub with broadcasting as a linear function, with the Arm DSP extension: four neighbouring
 * elements at a time if neither operand repeats along the channels. */
#include "tw_binary_dsp.h"

#include "tw_add_line.h"

/* `count` elements; an operand advances by its step, 0 or 1, per element. */
static void add_run(const tw_add_broadcast_dsp *p, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                    int32_t count)
{
    if (a_step & b_step) {
        tw_add_run(&p->line, a, b, to, count);
        return;
    }
    for (int32_t i = 0; i < count; ++i) {
        to[i] = tw_add_one(&p->line, a[i * a_step], b[i * b_step]);
    }
    tw_clamp_all(to, count, p->line.out_min, p->line.out_max);
}

TW_BINARY_FORMS(tw_add_s8_broadcast_dsp, tw_add_broadcast_dsp, add_run)
