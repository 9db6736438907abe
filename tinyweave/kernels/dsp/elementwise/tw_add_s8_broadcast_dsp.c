/* tw_add_s8_broadcast_dsp.c - int8 add or sub with broadcasting as a linear function, with the Arm DSP extension. */
#include "tw_binary_dsp.h"

#include "tw_add_line.h"

/* `count` elements; an operand advances by its step, 0 or 1, per element. The constant takes in an element that repeats; the other
 * operand then stands for its operand, with the factor 0. */
static void add_run(const tw_add_broadcast_dsp *p, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                    int32_t count)
{
    tw_add_line line = p->line;
    if (!a_step) {
        line.constant = tw_smlawb(line.a_factor, (uint32_t)*a << 8, line.constant);
        line.a_factor = 0;
        a = b;
    } else if (!b_step) {
        line.constant = tw_smlawb(line.b_factor, (uint32_t)*b << 8, line.constant);
        line.b_factor = 0;
        b = a;
    }
    tw_add_run(&line, a, b, to, count);
}

TW_BINARY_FORMS(tw_add_s8_broadcast_dsp, tw_add_broadcast_dsp, add_run)
