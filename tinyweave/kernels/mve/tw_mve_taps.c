/* tw_mve_taps.c - depthwise windows of sixteen channels, with the Arm MVE extension. tw_mve_taps.h has the layers, the layout
 * of the weights and the cost. */
#include "tw_mve_taps.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* Sixteen channels of all taps, two taps per round.
 * Registers: [x], [y]: inputs of two taps; [w]: stream; [tap]: offsets of the taps; lr: rounds left; q4 .. q7: sums in the
 * order of tw_mve_taps.h; q2, q3: products of 16 bits of even and of odd channels; q0, q1: inputs and weights. No stack.
 * Order: two taps are added in 16 bits, then widened once for both, which halves the additions in 32 bits. All vector registers
 * are taken, so the second tap's weights are loaded twice. VCTP sets the predicate register, which no clobber name covers in
 * all compilers: nothing else in this file may use it. BIASES, PRODUCTS and FINISH together equal sixteen() below. */
#define BIASES                     \
    "vldrw.32 q4, [%[w]], #16\n"   \
    "vldrw.32 q5, [%[w]], #16\n"   \
    "vldrw.32 q6, [%[w]], #16\n"   \
    "vldrw.32 q7, [%[w]], #16\n"
/* The inputs of a tap: all sixteen, or those that the predicate names and zeros. */
#define ALL(x) "vldrb.8 q0, [%[" x "]]\n"
#define SOME(x) "vpst\nvldrbt.8 q0, [%[" x "]]\n"
/* The products of the first tap, of the second, and their sum added to q4 .. q7. */
#define FIRST(load)                \
    load("x")                      \
    "vldrb.8 q1, [%[w]], #16\n"    \
    "vmullb.s8 q2, q0, q1\n"       \
    "vmullt.s8 q3, q0, q1\n"
#define SECOND(load)               \
    load("y")                      \
    "vldrb.8 q1, [%[w]]\n"         \
    "vmullb.s8 q1, q0, q1\n"       \
    "vadd.i16 q2, q2, q1\n"        \
    "vldrb.8 q1, [%[w]], #16\n"    \
    "vmullt.s8 q0, q0, q1\n"       \
    "vadd.i16 q3, q3, q0\n"
#define WIDEN                      \
    "vmovlb.s16 q0, q2\n"          \
    "vmovlt.s16 q1, q2\n"          \
    "vadd.i32 q4, q4, q0\n"        \
    "vadd.i32 q5, q5, q1\n"        \
    "vmovlb.s16 q0, q3\n"          \
    "vmovlt.s16 q1, q3\n"          \
    "vadd.i32 q6, q6, q0\n"        \
    "vadd.i32 q7, q7, q1\n"

/* Between the two roundings, as tw_mve_away. [x]: 1. */
#define FIX(sum) "vqdmlah.s32 " sum ", " sum ", %[x]\n"
#define NO_FIX(sum)
#define ONE_FIX "mov %[x], #1\n"
#define ONE_NO_FIX
#define RESCALE(sum, fix)                  \
    "vldrw.32 q0, [%[w]], #16\n"           \
    "vqrdmulh.s32 " sum ", " sum ", q0\n"  \
    fix(sum)                               \
    "vldrw.32 q0, [%[w], #48]\n"           \
    "vrshl.s32 " sum ", " sum ", q0\n"
/* Requantises the sums and stores at most [left] outputs. VQMOVN packs them back in the order of the channels. Offsets in
 * [layer]: 24 zero, 28 low, 32 high. */
#define FINISH(fix, store)         \
    ONE_##fix                      \
    RESCALE("q4", fix)             \
    RESCALE("q5", fix)             \
    "vqmovnb.s32 q4, q4\n"         \
    "vqmovnt.s32 q4, q5\n"         \
    RESCALE("q6", fix)             \
    RESCALE("q7", fix)             \
    "vqmovnb.s32 q6, q6\n"         \
    "vqmovnt.s32 q6, q7\n"         \
    "add %[w], %[w], #64\n"        \
    "ldrd %[x], %[y], [%[layer], #24]\n" \
    "vqadd.s16 q4, q4, %[x]\n"     \
    "vqadd.s16 q6, q6, %[x]\n"     \
    "ldr %[x], [%[layer], #32]\n"  \
    "vdup.8 q2, %[y]\n"            \
    "vqmovnb.s16 q4, q4\n"         \
    "vqmovnt.s16 q4, q6\n"         \
    "vdup.8 q3, %[x]\n"            \
    "vmax.s8 q4, q4, q2\n"         \
    "vctp.8 %[left]\n"             \
    "vmin.s8 q4, q4, q3\n"         \
    "vpst\n"                       \
    store

/* All taps: rounds of two at label 1, then an odd last tap. [from]: where the offsets of the taps start. */
#define PRODUCTS(first, second, widen) \
    "lsr lr, %[taps], #1\n"            \
    "wls lr, lr, 2f\n"                 \
    "1:\n"                             \
    "ldrd %[x], %[y], [%[tap]], #8\n"  \
    "add %[x], %[x], %[from]\n"        \
    "add %[y], %[y], %[from]\n"        \
    first second widen                 \
    "le lr, 1b\n"                      \
    "2:\n"                             \
    "tst %[taps], #1\n"                \
    "beq 3f\n"                         \
    "ldr %[x], [%[tap]], #4\n"         \
    "add %[x], %[x], %[from]\n"        \
    first widen                        \
    "3:\n"                             \
    "sub %[tap], %[tap], %[taps], lsl #2\n"

/* The last channels of a pixel, if they are at most eight, in lanes of 16 bits. q2: products of two taps; q4, q5: sums of even and
 * of odd channels. q7: TW_MVE_EVEN; the odd channels are 8 words later. One vector has all products of a tap, so these taps need
 * half of the multiplications and additions. Offsets in [layer]: 24 zero, 28 low, 32 high, 44 even.
 * Order: a round widens the products of the round before, between its loads. */
#define EIGHT (TW_MVE_LANES / 2)
#define EIGHT_BIASES                         \
    "vldrw.32 q7, [%[layer], #44]\n"         \
    "vctp.16 %[left]\n"                      \
    "lsr lr, %[taps], #1\n"                  \
    "vmov.i32 q2, #0\n"                      \
    "vldrw.u32 q4, [%[w], q7, uxtw #2]\n"    \
    "add %[w], %[w], #32\n"                  \
    "vldrw.u32 q5, [%[w], q7, uxtw #2]\n"    \
    "add %[w], %[w], #32\n"
#define EIGHT_PRODUCTS                       \
    "wls lr, lr, 2f\n"                       \
    "1:\n"                                   \
    "ldrd %[x], %[y], [%[tap]], #8\n"        \
    "vmovlb.s16 q6, q2\n"                    \
    "add %[x], %[x], %[from]\n"              \
    "vldrb.s16 q1, [%[w]], #16\n"            \
    "add %[y], %[y], %[from]\n"              \
    "vmovlt.s16 q3, q2\n"                    \
    "vpst\nvldrbt.s16 q0, [%[x]]\n"          \
    "vadd.i32 q4, q4, q6\n"                  \
    "vldrb.s16 q6, [%[w]], #16\n"            \
    "vadd.i32 q5, q5, q3\n"                  \
    "vpst\nvldrbt.s16 q3, [%[y]]\n"          \
    "vmul.i16 q2, q0, q1\n"                  \
    "vmul.i16 q3, q3, q6\n"                  \
    "vadd.i16 q2, q2, q3\n"                  \
    "le lr, 1b\n"                            \
    "2:\n"                                   \
    "tst %[taps], #1\n"                      \
    "beq 3f\n"                               \
    "ldr %[x], [%[tap]], #4\n"               \
    "vmovlb.s16 q0, q2\n"                    \
    "vldrb.s16 q6, [%[w]], #16\n"            \
    "vmovlt.s16 q1, q2\n"                    \
    "add %[x], %[x], %[from]\n"              \
    "vadd.i32 q4, q4, q0\n"                  \
    "vpst\nvldrbt.s16 q3, [%[x]]\n"          \
    "vadd.i32 q5, q5, q1\n"                  \
    "vmul.i16 q2, q3, q6\n"                  \
    "3:\n"
#define EIGHT_FINISH(fix)                    \
    "vmovlb.s16 q0, q2\n"                    \
    "vldrw.u32 q3, [%[w], q7, uxtw #2]\n"    \
    "vmovlt.s16 q1, q2\n"                    \
    "add %[w], %[w], #32\n"                  \
    "vadd.i32 q4, q4, q0\n"                  \
    "vldrw.u32 q6, [%[w], q7, uxtw #2]\n"    \
    "vadd.i32 q5, q5, q1\n"                  \
    "add %[w], %[w], #32\n"                  \
    "vqrdmulh.s32 q4, q4, q3\n"              \
    "vldrw.u32 q0, [%[w], q7, uxtw #2]\n"    \
    "vqrdmulh.s32 q5, q5, q6\n"              \
    ONE_##fix                                \
    "add %[w], %[w], #32\n"                  \
    fix("q4")                                \
    "ldr %[y], [%[layer], #28]\n"            \
    "vldrw.u32 q1, [%[w], q7, uxtw #2]\n"    \
    fix("q5")                                \
    "add %[w], %[w], #32\n"                  \
    "vdup.16 q6, %[y]\n"                     \
    "ldr %[y], [%[layer], #32]\n"            \
    "vrshl.s32 q4, q4, q0\n"                 \
    "sub %[tap], %[tap], %[taps], lsl #2\n"  \
    "vrshl.s32 q5, q5, q1\n"                 \
    "ldr %[x], [%[layer], #24]\n"            \
    "vqmovnb.s32 q4, q4\n"                   \
    "vdup.16 q7, %[y]\n"                     \
    "vqmovnt.s32 q4, q5\n"                   \
    "vqadd.s16 q4, q4, %[x]\n"               \
    "vmax.s16 q4, q4, q6\n"                  \
    "vmin.s16 q4, q4, q7\n"                  \
    "vpst\n"                                 \
    "vstrbt.16 q4, [%[to]]\n"

/* Stores the outputs; NEXT then moves to the next sixteen channels. */
#define STORE "vstrbt.8 q4, [%[to]]\n"
#define NEXT                          \
    "vstrbt.8 q4, [%[to]], #16\n"     \
    "add %[from], %[from], #16\n"     \
    "sub %[left], %[left], #16\n"
/* The variables first, second, w and at have fixed registers, since VLDRB.S16 and VSTRB.16 take only r0 .. r7. */
#define RUN(code)                                                                                                          \
    __asm__ volatile(code                                                                                                  \
                     : [x] "=&r"(first), [y] "=&r"(second), [w] "+r"(w), [tap] "+r"(tap), [from] "+r"(x),                  \
                       [left] "+r"(left), [to] "+r"(at)                                                                    \
                     : [taps] "r"(count), [layer] "r"(taps)                                                                \
                     : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11", "d12", "d13",       \
                       "d14", "d15", "cc", "memory")
#define RUN_ALL(fix) RUN(BIASES PRODUCTS(FIRST(ALL), SECOND(ALL), WIDEN) FINISH(fix, NEXT))
#define RUN_SOME(fix) RUN("vctp.8 %[left]\n" BIASES PRODUCTS(FIRST(SOME), SECOND(SOME), WIDEN) FINISH(fix, STORE))
#define RUN_EIGHT(fix) RUN(EIGHT_BIASES EIGHT_PRODUCTS EIGHT_FINISH(fix))

/* Moves the offsets of taps in rows outside the map back by a window's step, so that they still point to the zero points. */
static void move_back(const tw_mve_taps *taps, int32_t x_step)
{
    for (int32_t i = 0; i < taps->above; ++i) {
        taps->tap[i] -= x_step;
    }
    for (int32_t i = taps->taps - taps->below; i < taps->taps; ++i) {
        taps->tap[i] -= x_step;
    }
}

void tw_mve_taps_products(const tw_mve_taps *taps, const int8_t *x, int32_t x_step, int32_t pixels, int32_t channels, int8_t *to)
{
    const int32_t count = taps->taps, sign = taps->sign, gap = x_step - channels;
    const int32_t least = taps->reads_on ? EIGHT + 1 : TW_MVE_LANES; /* channels that are read as a whole vector */
    const int32_t *tap = taps->tap;
    register int8_t *at __asm__("r3") = to;
    for (;;) {
        register const int8_t *w __asm__("r2") = (const int8_t *)taps->stream;
        register const int8_t *first __asm__("r4"), *second __asm__("r5");
        int32_t left = channels;
        while (left >= least) {
            TW_BY_SIGN(sign, RUN_ALL, FIX, NO_FIX);
        }
        if (left > EIGHT) {
            TW_BY_SIGN(sign, RUN_SOME, FIX, NO_FIX);
        } else if (left > 0) {
            TW_BY_SIGN(sign, RUN_EIGHT, FIX, NO_FIX);
        }
        if (--pixels == 0) {
            return;
        }
        if (taps->above + taps->below) {
            move_back(taps, x_step);
        }
        x += gap + left; /* the assembly has added the other channels */
        at += left;
    }
}

#else

/* Computes the first `count` outputs of sixteen channels; returns the end of their stream. */
static const uint32_t *sixteen(const tw_mve_taps *taps, const int8_t *from, const uint32_t *stream, int32_t count, int8_t *to)
{
    const int8_t *weights = (const int8_t *)(stream + TW_MVE_LANES);
    uint32_t sums[TW_MVE_LANES] = {0};
    for (int32_t k = 0; k < taps->taps; ++k) {
        const int8_t *x = taps->tap[k] == INT32_MIN ? taps->zeros : from + taps->tap[k];
        for (int32_t i = 0; i < count; ++i) {
            sums[i] += (uint32_t)(x[i] * weights[i]);
        }
        weights += TW_MVE_LANES;
    }
    const uint32_t *const bias = stream, *const multiplier = bias + TW_MVE_LANES + taps->taps * (TW_MVE_LANES / 4);
    for (int32_t i = 0; i < count; ++i) {
        const int32_t at = (i & 1) * 8 + (i & 2) * 2 + i / 4; /* the order of channels in the stream */
        const int32_t scaled = tw_mve_rescale((int32_t)(sums[i] + bias[at]), (int32_t)multiplier[at],
                                              (int32_t)multiplier[TW_MVE_LANES + at], taps->sign);
        to[i] = (int8_t)tw_clamp(scaled + taps->zero, taps->low, taps->high);
    }
    return multiplier + 2 * TW_MVE_LANES;
}

void tw_mve_taps_products(const tw_mve_taps *taps, const int8_t *x, int32_t x_step, int32_t pixels, int32_t channels, int8_t *to)
{
    for (; pixels > 0; --pixels) {
        const uint32_t *stream = taps->stream;
        for (int32_t done = 0; done < channels; done += TW_MVE_LANES) {
            stream = sixteen(taps, x + done, stream, tw_min(channels - done, TW_MVE_LANES), to + done);
        }
        x += x_step;
        to += channels;
    }
}

#endif
