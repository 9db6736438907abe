/* tw_depthwise_7x7_s8_lean_m7.c - int8 depthwise convolution 7x7 without working memory, in the order that suits a
 * Cortex-M7. */
#include "tw_depthwise_lean_m7.h"

#include "tw_taps_m7.h"
#include "tw_taps_loop.h"

#if TW_HAS_DSP

TW_TAPS_ALONE(alone, "7", "49", "0, 7, 14, 21, 28, 35, 42", ROW_ALONE("0, 1, 2, 3, 4, 5, 6"))
TW_TAPS_OUTPUTS(tw_taps_7_1_m7, alone, "7", "8", "56", "0, 8, 16, 24, 32, 40, 48", ROW_1("1, 2, 3, 4, 5, 6", "7"))
TW_TAPS_OUTPUTS(tw_taps_7_2_m7, alone, "7", "9", "63", "0, 9, 18, 27, 36, 45, 54", ROW_2("2, 3, 4, 5, 6", "7", "8"))

#else

void tw_taps_7_1_m7(const tw_taps *taps) { plain(taps, 7, 1); }
void tw_taps_7_2_m7(const tw_taps *taps) { plain(taps, 7, 2); }

#endif

void tw_depthwise_7x7_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range)
{
    outputs_in(p, in, out, range, 7);
}

TW_WHOLE_FORM(tw_depthwise_7x7_s8_lean_m7, tw_depthwise_lean_dsp,
              tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
