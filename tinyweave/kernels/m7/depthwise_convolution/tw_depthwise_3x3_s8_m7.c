/* tw_depthwise_3x3_s8_m7.c - int8 depthwise convolution of windows of three rows, scheduled for a Cortex-M7 by the rules of
 * tw_pair_s8_m7.c. tw_line.h has the layers, the layout of the weights and the cost. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

#include "tw_line_rows.h"

#if TW_HAS_DSP

/* Two neighbouring outputs at stride 1 and 2. Registers and stack: TWOS in tw_line_rows.h; r1, lr: words of two columns, then
 * power and zero point, then bytes to the next output and the end of the row's pairs.
 * Order: the words of the next row of the window, and after the last row power and zero point, are loaded between the products
 * of this row, each behind the last use of its register. The advance of r0 fills a slot after SMMULR. PAIR_1 and PAIR_2,
 * with PAIR_OUTPUTS, equal those of tw_line.c. */
#define PAIR_OUTPUTS(fix, bytes) \
    "smmulr r11, r11, r10\n"     \
    "add r0, r0, #" bytes "\n"   \
    "smmulr r12, r12, r10\n"     \
    fix("r11")                   \
    fix("r12")                   \
    "smmlar r11, r11, r1, lr\n"  \
    "smmlar r12, r12, r1, lr\n"  \
    "ldr r1, [sp, #8]\n"         \
    "ssat r11, #8, r11\n"        \
    "ldr lr, [sp, #12]\n"        \
    "ssat r12, #8, r12\n"        \
    "strb r11, [r2]\n"           \
    "strb r12, [r2, r1]\n"       \
    "add r2, r2, r1, lsl #1\n"
#define PAIR_1(fix)              \
    "ldr r1, [r0]\n"             \
    "ldr lr, [r0, #4]\n"         \
    "smlad r11, r1, r4, r3\n"    \
    "smlatb r12, r1, r4, r3\n"   \
    "ldr r1, [r0, #256]\n"       \
    "smlabt r11, lr, r5, r11\n"  \
    "smlad r12, lr, r5, r12\n"   \
    "ldr lr, [r0, #260]\n"       \
    "smlad r11, r1, r6, r11\n"   \
    "smlatb r12, r1, r6, r12\n"  \
    "ldr r1, [r0, #512]\n"       \
    "smlabt r11, lr, r7, r11\n"  \
    "smlad r12, lr, r7, r12\n"   \
    "ldr lr, [r0, #516]\n"       \
    "smlad r11, r1, r8, r11\n"   \
    "smlatb r12, r1, r8, r12\n"  \
    "ldr r1, [sp]\n"             \
    "smlabt r11, lr, r9, r11\n"  \
    "smlad r12, lr, r9, r12\n"   \
    "ldr lr, [sp, #4]\n"         \
    PAIR_OUTPUTS(fix, "4")
#define PAIR_2(fix)              \
    "ldr r1, [r0]\n"             \
    "ldr lr, [r0, #4]\n"         \
    "smlad r11, r1, r4, r3\n"    \
    "ldr r1, [r0, #8]\n"         \
    "smlad r12, lr, r4, r3\n"    \
    "smlad r11, lr, r5, r11\n"   \
    "ldr lr, [r0, #260]\n"       \
    "smlad r12, r1, r5, r12\n"   \
    "ldr r1, [r0, #256]\n"       \
    "smlad r11, r1, r6, r11\n"   \
    "ldr r1, [r0, #264]\n"       \
    "smlad r12, lr, r6, r12\n"   \
    "smlad r11, lr, r7, r11\n"   \
    "ldr lr, [r0, #516]\n"       \
    "smlad r12, r1, r7, r12\n"   \
    "ldr r1, [r0, #512]\n"       \
    "smlad r11, r1, r8, r11\n"   \
    "ldr r1, [r0, #520]\n"       \
    "smlad r12, lr, r8, r12\n"   \
    "smlad r11, lr, r9, r11\n"   \
    "ldr lr, [sp, #4]\n"         \
    "smlad r12, r1, r9, r12\n"   \
    "ldr r1, [sp]\n"             \
    PAIR_OUTPUTS(fix, "8")

TWOS_OF(tw_line_3_1_rows_3_m7, PAIR_1, "smlabt", 4)
TWOS_OF(tw_line_3_2_rows_3_m7, PAIR_2, "smlad", 8)

#else

void tw_line_3_1_rows_3_m7(const tw_line *line) { tw_line_3_1_rows_3(line); }
void tw_line_3_2_rows_3_m7(const tw_line *line) { tw_line_3_2_rows_3(line); }

#endif

void tw_depthwise_3x3_s8_m7_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    tw_depthwise_conv_2d_s8_dsp_part(p, in, out, range, scratch);
}

void tw_depthwise_3x3_s8_m7(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch)
{
    tw_depthwise_conv_2d_s8_dsp(p, in, out, scratch);
}
