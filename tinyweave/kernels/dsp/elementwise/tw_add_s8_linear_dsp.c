/* tw_add_s8_linear_dsp.c - int8 add or sub of maps of one shape as a linear function, with the Arm DSP extension. */
#include "tw_binary_dsp.h"

#include "tw_add_line.h"

TW_ALIKE_FORMS(tw_add_s8_linear_dsp, tw_add_linear_dsp, tw_add_run(&p->line, from_a, from_b, to, count))
