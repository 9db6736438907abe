/* tw_svdf_s8_dsp.c - int8 SVDF layer with the Arm DSP extension: the products of tw_dot_dsp.c. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_svdf.h"

void tw_svdf_s8_dsp(const tw_svdf *p, const void *in, void *state, void *out) { tw_svdf_over(p, in, state, out, tw_dot1_dsp); }
