/* tw_depthwise_3x3_s8_m7.c - int8 depthwise convolution of kernels of three rows, in the order that suits a Cortex-M7: as
 * tw_pair_s8_m7.c says. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

#include "tw_line_rows.h"

#if TW_HAS_DSP

/* A row of the kernel, of which the inputs are there; those of the next one, or what rescales the sums, are loaded. */
#define ROW_1(w01, w12, first_0, first_1, next_1, next_lr) \
    "smlad r11, r1, " w01 ", " first_0 "\n"               \
    "smlatb r12, r1, " w01 ", " first_1 "\n"              \
    "ldr r1, " next_1 "\n"                                \
    "smlabt r11, lr, " w12 ", r11\n"                      \
    "smlad r12, lr, " w12 ", r12\n"                       \
    "ldr lr, " next_lr "\n"
#define ROW_2(third, w01, w2, first_0, first_1, next_1, next_lr) \
    "smlad r11, r1, " w01 ", " first_0 "\n"               \
    "ldr r1, " third "\n"                                 \
    "smlad r12, lr, " w01 ", " first_1 "\n"               \
    "smlad r11, lr, " w2 ", r11\n"                        \
    "ldr lr, " next_lr "\n"                               \
    "smlad r12, r1, " w2 ", r12\n"                        \
    "ldr r1, " next_1 "\n"

/* Both outputs of the sums; advance: bytes of a line to the next two. */
#define OUTPUTS(advance, fix)         \
    "smmulr r11, r11, r10\n"          \
    "add r0, r0, #" advance "\n"      \
    "smmulr r12, r12, r10\n"          \
    fix("r11")                        \
    fix("r12")                        \
    "smmlar r11, r11, r1, lr\n"       \
    "smmlar r12, r12, r1, lr\n"       \
    "ldr r1, [sp, #8]\n"              \
    "ssat r11, #8, r11\n"             \
    "ldr lr, [sp, #12]\n"             \
    "ssat r12, #8, r12\n"             \
    "strb r11, [r2]\n"                \
    "strb r12, [r2, r1]\n"            \
    "add r2, r2, r1, lsl #1\n"

#define PAIR_1(fix)                                                    \
    "ldr r1, [r0]\n"                                                   \
    "ldr lr, [r0, #4]\n"                                               \
    ROW_1("r4", "r5", "r3", "r3", "[r0, #256]", "[r0, #260]")          \
    ROW_1("r6", "r7", "r11", "r12", "[r0, #512]", "[r0, #516]")        \
    ROW_1("r8", "r9", "r11", "r12", "[sp]", "[sp, #4]")                \
    OUTPUTS("4", fix)
#define PAIR_2(fix)                                                    \
    "ldr r1, [r0]\n"                                                   \
    "ldr lr, [r0, #4]\n"                                               \
    ROW_2("[r0, #8]", "r4", "r5", "r3", "r3", "[r0, #256]", "[r0, #260]") \
    ROW_2("[r0, #264]", "r6", "r7", "r11", "r12", "[r0, #512]", "[r0, #516]") \
    ROW_2("[r0, #520]", "r8", "r9", "r11", "r12", "[sp]", "[sp, #4]")  \
    OUTPUTS("8", fix)

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
