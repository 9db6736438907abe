/* tw_depthwise_5x5_s8_lean_m7.c - int8 depthwise convolution 5x5 without working memory, in the order that suits a
 * Cortex-M7. */
#include "tw_depthwise_lean_m7.h"

#include "tw_taps_m7.h"
#include "tw_taps_loop.h"

#if TW_HAS_DSP

TW_TAPS_ALONE(alone, "5", "25", "0, 5, 10, 15, 20", ROW_ALONE("0, 1, 2, 3, 4"))
TW_TAPS_OUTPUTS(tw_taps_5_1_m7, alone, "5", "6", "30", "0, 6, 12, 18, 24", ROW_1("1, 2, 3, 4", "5"))
TW_TAPS_OUTPUTS(tw_taps_5_2_m7, alone, "5", "7", "35", "0, 7, 14, 21, 28", ROW_2("2, 3, 4", "5", "6"))

#else

void tw_taps_5_1_m7(const tw_taps *taps) { plain(taps, 5, 1); }
void tw_taps_5_2_m7(const tw_taps *taps) { plain(taps, 5, 2); }

#endif

void tw_depthwise_5x5_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range)
{
    outputs_in(p, in, out, range, 5);
}

TW_WHOLE_FORM(tw_depthwise_5x5_s8_lean_m7, tw_depthwise_lean_dsp,
              tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
