/* tw_resize_bilinear_s8.c - int8 bilinear interpolation, portable C: the specification of every faster variant. */
#include "tw_resize.h"

#include "tw_resize_bilinear.h"

TW_FORMS(tw_resize_bilinear_s8, tw_resize_bilinear, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_resize_bilinear_over(p, in, out, range))
