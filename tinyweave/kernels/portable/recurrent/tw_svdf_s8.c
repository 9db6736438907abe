/* tw_svdf_s8.c - int8 SVDF layer, portable C: the specification of every faster variant. */
#include "tw_recurrent.h"

#include "tw_dot.h"
#include "tw_svdf.h"

void tw_svdf_s8(const tw_svdf *p, const void *in, void *state, void *out) { tw_svdf_over(p, in, state, out, tw_dot1); }
