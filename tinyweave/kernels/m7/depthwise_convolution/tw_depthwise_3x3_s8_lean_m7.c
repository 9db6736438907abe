/* tw_depthwise_3x3_s8_lean_m7.c - int8 depthwise convolution 3x3 without working memory, in the order that suits a
 * Cortex-M7. */
#include "tw_depthwise_lean_m7.h"

#include "tw_taps_m7.h"
#include "tw_taps_loop.h"

#if TW_HAS_DSP

TW_TAPS_ALONE(alone, "3", "9", "0, 3, 6", ROW_ALONE("0, 1, 2"))
TW_TAPS_OUTPUTS(tw_taps_3_1_m7, alone, "3", "4", "12", "0, 4, 8", ROW_1("1, 2", "3"))
TW_TAPS_OUTPUTS(tw_taps_3_2_m7, alone, "3", "5", "15", "0, 5, 10", ROW_2("2", "3", "4"))

#else

void tw_taps_3_1_m7(const tw_taps *taps) { plain(taps, 3, 1); }
void tw_taps_3_2_m7(const tw_taps *taps) { plain(taps, 3, 2); }

#endif

void tw_depthwise_3x3_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range)
{
    outputs_in(p, in, out, range, 3);
}

TW_WHOLE_FORM(tw_depthwise_3x3_s8_lean_m7, tw_depthwise_lean_dsp,
              tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
