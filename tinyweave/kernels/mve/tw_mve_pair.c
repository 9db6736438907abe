/* tw_mve_pair.c - two pixels times four filters, with the Arm MVE extension. tw_mve_pair.h has the layers, the layout of the
 * weights and the cost. */
#include "tw_mve_pair.h"

#include "tw_mve_dots.h"

#define FILTERS 4
#define HELD 64  /* outputs of the last filters that by_filters computes before others */
/* A group of four filters takes 45 instructions and 10 per 16 inputs for a pixel by itself. In a pair, it takes 19 and 7, after
 * about 150 for all pairs. Single pixels are faster up to this number of groups, times inputs and what 26 instructions equal. */
#define FEW_GROUPS(count, bytes) ((count) * ((bytes) + 144) <= 800)
/* The fewest pixels, and the bytes of the smallest windows, for which two filters by themselves are faster than a group of four. */
#define TWO_PIXELS 16
#define TWO_BYTES 64

/* Successive pairs of pixels. The assembly loads the members in this order. */
typedef struct {
    const int8_t *x_0, *x_1;   /* the inputs of the first pair */
    int32_t zero;
    int8_t *to_0_end;          /* end of the first pixel's outputs of whole groups */
    int32_t x_step;            /* bytes to the inputs of the next pair */
    const uint32_t *stream;
    int32_t pairs;
    int32_t gap;               /* bytes from the end of a pixel's whole groups to the next pixel */
    int32_t low, high;
    int8_t *to_1, *to_0;       /* the outputs of the first pair */
    const int8_t *x_0_end;     /* end of the inputs of the first pixel */
    int32_t rest;              /* filters of a last group that has fewer than four; 0 if there is none */
} tw_mve_frame;

#if TW_HAS_MVE

/* Sixteen inputs of both pixels, in the vectors x_0 and x_1, times four filters.
 * Registers: r0, r2, r4, r6: sums of pixel 0; r8, r10, r12, lr: of pixel 1. VMLADAVA accumulates in even registers only, so the
 * eight sums take all of them. r3: stream; q2, q3: weights, alternately. q2 begins with the weights of the first filter.
 * Order: a product takes two cycles and a load two, on different parts of the core. So a load is between each two products, two
 * products before its vector is needed; first, second and last are other instructions in such gaps. The last load is of the
 * next inputs' first weights; after the last inputs of a group these are the multipliers, which FINISH needs in q2.
 * Operands have no spaces between them, since C99 promises only 4,095 characters of a string.
 * Equals the two inner loops of four(), for both pixels. */
#define PRODUCTS(x_0, x_1, first, second, last) \
    "vmladava.s8 r0," x_0 ",q2\n"               \
    "vldrb.8 q3,[r3],#16\n"                     \
    "vmladava.s8 r8," x_1 ",q2\n"               \
    "vldrb.8 q2,[r3],#16\n"                     \
    "vmladava.s8 r2," x_0 ",q3\n"               \
    first                                       \
    "vmladava.s8 r10," x_1 ",q3\n"              \
    "vldrb.8 q3,[r3],#16\n"                     \
    "vmladava.s8 r4," x_0 ",q2\n"               \
    second                                      \
    "vmladava.s8 r12," x_1 ",q2\n"              \
    "vldrb.8 q2,[r3],#16\n"                     \
    "vmladava.s8 r6," x_0 ",q3\n"               \
    last                                        \
    "vmladava.s8 lr," x_1 ",q3\n"

/* Both pixels begin with the biases, then PRODUCTS with the first weights in q2. */
#define BIASES                      \
    "ldm.w r3,{r8,r10,r12,lr}\n"     \
    "ldm.w r3!,{r0,r2,r4,r6}\n"     \
    "vldrb.8 q2,[r3],#16\n"

/* Between the two roundings, as tw_mve_away. r4: 1, where a sum was. */
#define FIX "mov r4, #1\nvqdmlah.s32 q0, q0, r4\nvqdmlah.s32 q1, q1, r4\n"
#define NO_FIX
/* Stores the outputs of four filters of both pixels, in q0 and q1, at r7 and r5: ALL and moves on, or SOME that the predicate
 * names. */
#define ALL "vstrb.32 q0, [r7], #4\nvstrb.32 q1, [r5], #4\n"
#define SOME "vpstt\nvstrbt.32 q0, [r7]\nvstrbt.32 q1, [r5]\n"

/* Outputs of four filters of both pixels: q0, q1: the sums as vectors, then outputs; q2: multipliers, which PRODUCTS has loaded,
 * then shifts; q4, q5: the clamp; r7, r5: where the outputs of pixel 0 and 1 go. load: loads what is needed of the frame, into
 * registers that held sums; zero: the output's zero point; store: ALL or SOME. Equals the last loop of four(), for both pixels. */
#define FINISH(load, fix, zero, store)    \
    "vmov q0[2],q0[0],r0,r4\n"            \
    "vmov q0[3],q0[1],r2,r6\n"            \
    "vmov q1[2],q1[0],r8,r12\n"           \
    "vqrdmulh.s32 q0,q0,q2\n"             \
    "vmov q1[3],q1[1],r10,lr\n"           \
    "vqrdmulh.s32 q1,q1,q2\n"             \
    load                                  \
    fix                                   \
    "vldrw.32 q2,[r3],#16\n"              \
    "vrshl.s32 q0,q0,q2\n"                \
    "vrshl.s32 q1,q1,q2\n"                \
    "vadd.i32 q0,q0," zero "\n"           \
    "vadd.i32 q1,q1," zero "\n"           \
    "vmax.s32 q0,q0,q4\n"                 \
    "vmax.s32 q1,q1,q4\n"                 \
    "vmin.s32 q0,q0,q5\n"                 \
    "vmin.s32 q1,q1,q5\n"                 \
    store

/* Two vectors of inputs of each pixel, from r1 and r9; or a larger odd or even number, up to r11, the end of the inputs of pixel 0.
 * While PRODUCTS multiplies a vector of each pixel, it loads the next ones. Label 3: two vectors of each pixel. */
#define LOAD_0(x_0) "vldrb.8 " x_0 ", [r1], #16\n"
#define LOAD_1(x_1) "vldrb.8 " x_1 ", [r9], #16\n"
#define AT_END "cmp r1, r11\n"
#define TWO                                                \
    LOAD_0("q0") LOAD_1("q1")                              \
    PRODUCTS("q0", "q1", LOAD_0("q6"), LOAD_1("q7"), "")   \
    PRODUCTS("q6", "q7", "", "", "")
#define TWO_AT_A_TIME                                      \
    "3:\n"                                                 \
    PRODUCTS("q0", "q1", LOAD_0("q6"), LOAD_1("q7"), "")   \
    PRODUCTS("q6", "q7", LOAD_0("q0"), LOAD_1("q1"), AT_END) \
    "bne 3b\n"
#define ODD LOAD_0("q0") LOAD_1("q1") TWO_AT_A_TIME PRODUCTS("q0", "q1", "", "", "")
#define EVEN                                               \
    LOAD_0("q6") LOAD_1("q7")                              \
    PRODUCTS("q6", "q7", LOAD_0("q0"), LOAD_1("q1"), "")   \
    TWO_AT_A_TIME                                          \
    PRODUCTS("q0", "q1", "", "", "")

/* Saves r4 .. r11, since the code needs all registers, and puts members of the frame on the stack, 68 bytes in all: [sp] x_0,
 * +4 x_1, +8 zero, +12 to_0_end, +16 x_step, +20 stream, +24 pairs, +28 gap, +32 rest. */
#define ENTER                       \
    "push {r4-r11}\n"               \
    "ldr r1, [r0, #52]\n"           \
    "push {r1}\n"                   \
    "ldm.w r0, {r1-r8}\n"           \
    "push {r1-r8}\n"                \
    "mov r3, r6\n"                  \
    "add r1, r0, #32\n"             \
    "ldm.w r1, {r2, r4, r5, r7, r11}\n" \
    "vdup.32 q4, r2\n"              \
    "vdup.32 q5, r4\n"
/* Goes to label 7 if a last group has fewer than four filters; there LOAD_REST sets the predicate for them. r6: free. */
#define IF_REST "ldr r0, [sp, #32]\ncmp r0, #0\nbne 7f\n"
#define LOAD_REST "ldr r6, [sp, #32]\nvctp.32 r6\n"
/* Counts a pair down; else moves the outputs to the next pair, and r4 to the end of the whole groups of its pixel 0. Leaves x_step
 * in r2, the stream in r3. */
#define NEXT_PAIR                   \
    "ldr r0, [sp, #24]\n"           \
    "ldr r6, [sp, #28]\n"           \
    "subs r0, r0, #1\n"             \
    "beq 4f\n"                      \
    "str r0, [sp, #24]\n"           \
    "ldrd r2, r3, [sp, #16]\n"      \
    "sub r4, r5, r7\n"              \
    "add r7, r5, r6\n"              \
    "add r5, r7, r4\n"              \
    "sub r4, r5, r6\n"
#define LEAVE                       \
    "4:\n"                          \
    "add sp, sp, #36\n"             \
    "pop {r4-r11}\n"

/* All pairs, for windows of more than sixteen inputs; vectors: TWO, ODD or EVEN. r1, r9: inputs of both pixels; r11: end of the
 * inputs of pixel 0. Label 2: a whole group of filters; 7: a last group; 8: the end of a pair. Equals products() below in plain
 * C. */
#define PAIRS_OF_MANY(vectors, fix)                        \
    ENTER                                                  \
    "ldr r0, [sp, #12]\n"                                  \
    "cmp r7, r0\n"                                         \
    "beq 7f\n"                                             \
    "2:\n"                                                 \
    "ldrd r1, r9, [sp]\n"                                  \
    BIASES                                                 \
    vectors                                                \
    FINISH("ldrd r0, r2, [sp, #8]\n", fix, "r0", ALL)      \
    "cmp r7, r2\n"                                         \
    "bne 2b\n"                                             \
    IF_REST                                                \
    "8:\n"                                                 \
    NEXT_PAIR                                              \
    "str r4, [sp, #12]\n"                                  \
    "ldrd r0, r1, [sp]\n"                                  \
    "add r0, r0, r2\n"                                     \
    "add r1, r1, r2\n"                                     \
    "add r11, r11, r2\n"                                   \
    "cmp r7, r4\n"                                         \
    "strd r0, r1, [sp]\n"                                  \
    "bne 2b\n"                                             \
    "7:\n"                                                 \
    "ldrd r1, r9, [sp]\n"                                  \
    BIASES                                                 \
    vectors                                                \
    FINISH("ldr r0, [sp, #8]\n" LOAD_REST, fix, "r0", SOME) \
    "b 8b\n"                                               \
    LEAVE

/* The loop over pairs of pixels for windows of at most sixteen inputs, which stay in q6 and q7 for all filters. r9: zero point;
 * r11: end of the outputs of whole groups of pixel 0. */
#define PAIRS_OF_SIXTEEN(fix)        \
    ENTER                            \
    "ldrd r1, r2, [sp]\n"            \
    "ldrd r9, r11, [sp, #8]\n"       \
    "vldrb.8 q6, [r1]\n"             \
    "vldrb.8 q7, [r2]\n"             \
    "cmp r7, r11\n"                  \
    "beq 7f\n"                       \
    "2:\n"                           \
    BIASES                           \
    PRODUCTS("q6", "q7", "", "", "") \
    FINISH("", fix, "r9", ALL)       \
    "cmp r7, r11\n"                  \
    "bne 2b\n"                       \
    IF_REST                          \
    "8:\n"                           \
    NEXT_PAIR                        \
    "add r1, r1, r2\n"               \
    "vldrb.8 q6, [r1]\n"             \
    "add r2, r1, r2, lsr #1\n"       \
    "mov r11, r4\n"                  \
    "cmp r7, r11\n"                  \
    "vldrb.8 q7, [r2]\n"             \
    "bne 2b\n"                       \
    "7:\n"                           \
    BIASES                           \
    PRODUCTS("q6", "q7", "", "", "") \
    FINISH(LOAD_REST, fix, "r9", SOME) \
    "b 8b\n"                         \
    LEAVE

#define RUN(code)                                                                                               \
    __asm__ volatile(code : "+r"(frame) : : "r1", "r2", "r3", "r12", "lr", "d0", "d1", "d2", "d3", "d4", "d5",  \
                     "d6", "d7", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15", "cc", "memory", TW_MVE_PREDICATE)

#define RUN_SIXTEEN(fix) RUN(PAIRS_OF_SIXTEEN(fix))
#define RUN_TWO(fix) RUN(PAIRS_OF_MANY(TWO, fix))
#define RUN_EVEN(fix) RUN(PAIRS_OF_MANY(EVEN, fix))
#define RUN_ODD(fix) RUN(PAIRS_OF_MANY(ODD, fix))

/* Computes the outputs of all pairs by groups of filters. */
static void products(const tw_mve_layer *layer, const tw_mve_frame *pair)
{
    const int32_t sign = layer->sign;
    register const tw_mve_frame *frame __asm__("r0") = pair;
    const int32_t vectors = (int32_t)(pair->x_0_end - pair->x_0) / TW_MVE_LANES;
    if (vectors == 1) {
        TW_BY_SIGN(sign, RUN_SIXTEEN, FIX, NO_FIX);
    } else if (vectors == 2) {
        TW_BY_SIGN(sign, RUN_TWO, FIX, NO_FIX);
    } else if (vectors % 2 == 0) {
        TW_BY_SIGN(sign, RUN_EVEN, FIX, NO_FIX);
    } else {
        TW_BY_SIGN(sign, RUN_ODD, FIX, NO_FIX);
    }
}

#else

/* Computes the outputs of four filters of one pixel, of which `bytes` inputs are read. Returns the end of the filters' stream. */
static const uint32_t *four(const tw_mve_layer *layer, int32_t bytes, const int8_t *x, const uint32_t *stream, int8_t *to)
{
    const int8_t *const weights = (const int8_t *)(stream + FILTERS);
    const int32_t *const factors = (const int32_t *)stream + FILTERS + layer->bytes;
    for (int32_t i = 0; i < FILTERS; ++i) {
        uint32_t sum = stream[i];
        for (int32_t k = 0; k < bytes; ++k) {
            sum += (uint32_t)(x[k] * weights[(k / TW_MVE_LANES * FILTERS + i) * TW_MVE_LANES + k % TW_MVE_LANES]);
        }
        const int32_t scaled = tw_mve_rescale((int32_t)sum, factors[i], factors[FILTERS + i], layer->sign);
        to[i] = (int8_t)tw_clamp(scaled + layer->zero, layer->low, layer->high);
    }
    return stream + 3 * FILTERS + layer->bytes;
}

static void products(const tw_mve_layer *layer, const tw_mve_frame *pair)
{
    const int8_t *x_0 = pair->x_0, *x_1 = pair->x_1;
    int8_t *to_0 = pair->to_0, *to_1 = pair->to_1, *end = pair->to_0_end;
    const int32_t apart = (int32_t)(to_1 - to_0);
    for (int32_t i = 0; i < pair->pairs; ++i) {
        const uint32_t *stream = pair->stream;
        for (int32_t left = (int32_t)(end - to_0) + pair->rest, count; left > 0; left -= count) {
            int8_t first[FILTERS], second[FILTERS]; /* both are read before either is written: outputs may overlap inputs */
            count = tw_min(left, FILTERS);
            four(layer, layer->bytes, x_0, stream, first);
            stream = four(layer, layer->bytes, x_1, stream, second);
            memcpy(to_0, first, (size_t)count);
            memcpy(to_1, second, (size_t)count);
            to_0 += count;
            to_1 += count;
        }
        x_0 += pair->x_step;
        x_1 += pair->x_step;
        to_0 = to_1 + pair->gap - pair->rest;
        to_1 = to_0 + apart;
        end = to_1 - pair->gap;
    }
}

#endif

/* Computes the outputs of one filter of any number of pixels, four at a time. filter: its index in the group at `stream`; `apart`
 * bytes lead from a pixel's output to the next one's. */
static void one_filter(const tw_mve_layer *layer, const uint32_t *stream, int32_t filter, const int8_t *from, int32_t step,
                       int32_t pixels, int8_t *to, int32_t apart)
{
    const int32_t bytes = layer->bytes, zero = layer->zero, low = layer->low, high = layer->high, sign = layer->sign;
    const int32_t *const factors = (const int32_t *)stream + FILTERS + bytes, bias = (int32_t)stream[filter];
    const int32_t multiplier = factors[filter], shift = factors[FILTERS + filter];
    const int8_t *const weights = (const int8_t *)(stream + FILTERS) + filter * TW_MVE_LANES;
#if TW_HAS_MVE
    const int32x4_t multipliers = vdupq_n_s32(multiplier), shifts = vdupq_n_s32(shift);
    const int32x4_t lows = vdupq_n_s32(low), highs = vdupq_n_s32(high);
    const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)apart);
#endif
    for (; pixels > 0; pixels -= 4) {
        const int8_t *w = weights, *x_0 = from, *x_1 = pixels > 1 ? x_0 + step : x_0; /* the last pixel is repeated */
        const int8_t *x_2 = pixels > 2 ? x_1 + step : x_1, *x_3 = pixels > 3 ? x_2 + step : x_2;
        int32_t sum_0 = bias, sum_1 = bias, sum_2 = bias, sum_3 = bias;
        TW_MVE_DOTS(w, 64, x_0, x_1, x_2, x_3, 16, bytes, sum_0, sum_1, sum_2, sum_3);
#if TW_HAS_MVE
        int32x4_t out = vsetq_lane_s32(sum_1, vdupq_n_s32(sum_0), 1);
        out = vsetq_lane_s32(sum_3, vsetq_lane_s32(sum_2, out, 2), 3);
        out = vrshlq_s32(tw_mve_away(vqrdmulhq_s32(out, multipliers), -sign), shifts);
        out = vminq_s32(vmaxq_s32(vaddq_n_s32(out, zero), lows), highs);
        vstrbq_scatter_offset_p_s32(to, places, out, vctp32q((uint32_t)pixels));
#else
        const int32_t sums[4] = {sum_0, sum_1, sum_2, sum_3};
        for (int32_t i = 0; i < tw_min(pixels, 4); ++i) {
            to[i * apart] = (int8_t)tw_clamp(tw_mve_rescale(sums[i], multiplier, shift, sign) + zero, low, high);
        }
#endif
        from += 4 * step;
        to += 4 * apart;
    }
}

#if TW_HAS_MVE

/* Adds the products of `bytes` inputs at `x` with a group of four filters to the sums; `w`: the group's weights in the stream.
 * Registers and order as TW_MVE_DOTS, but one pointer reads the weights, so that no sum has to leave its register. */
#define GROUP_DOTS(x, w, bytes, sum_0, sum_1, sum_2, sum_3)                                               \
    __asm__(                                                                                              \
        "wlstp.8 lr, %[count], 2f\n"                                                                      \
        "1:\n"                                                                                            \
        "vldrb.8 q0, [%[from]], #16\n"                                                                    \
        "vldrb.8 q1, [%[weights]], #16\n"                                                                 \
        "vmladava.s8 %[s_0], q0, q1\n"                                                                    \
        "vldrb.8 q2, [%[weights]], #16\n"                                                                 \
        "vmladava.s8 %[s_1], q0, q2\n"                                                                    \
        "vldrb.8 q1, [%[weights]], #16\n"                                                                 \
        "vmladava.s8 %[s_2], q0, q1\n"                                                                    \
        "vldrb.8 q2, [%[weights]], #16\n"                                                                 \
        "vmladava.s8 %[s_3], q0, q2\n"                                                                    \
        "letp lr, 1b\n"                                                                                   \
        "2:\n"                                                                                            \
        : [from] "+r"(x), [weights] "+r"(w), [s_0] "+Te"(sum_0), [s_1] "+Te"(sum_1), [s_2] "+Te"(sum_2),  \
          [s_3] "+Te"(sum_3)                                                                              \
        : [count] "r"(bytes) : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "memory")

/* Stores the first `count` of four lanes as bytes, all if it is larger. VCTP sets the predicate register as in tw_mve_taps.c: nothing
 * else in by_pixels uses it, and so the compiler need not save it. */
static inline void store_some(int8_t *to, int32x4_t lanes, int32_t count)
{
    __asm__ volatile("vctp.32 %2\nvpst\nvstrbt.32 %q1, [%0]\n" : : "l"(to), "w"(lanes), "r"(count) : "memory");
}

/* Computes the outputs of the first `filters` filters of each pixel, one pixel at a time; bytes: inputs of a pixel that are read. */
TW_NOT_INLINE void by_pixels(const tw_mve_layer *layer, int32_t bytes, const int8_t *from, int32_t step, int32_t pixels,
                             int32_t filters, int8_t *to)
{
    const int32_t zero = layer->zero, sign = layer->sign;
    const int32x4_t low = vdupq_n_s32(layer->low), high = vdupq_n_s32(layer->high);
    for (; pixels > 0; --pixels) {
        const int32_t *stream = (const int32_t *)layer->stream;
        int8_t *at = to;
        for (int32_t left = filters; left > 0; left -= FILTERS) {
            const int8_t *x = from, *w = (const int8_t *)(stream + FILTERS);
            int32_t sum_0 = stream[0], sum_1 = stream[1], sum_2 = stream[2], sum_3 = stream[3];
            GROUP_DOTS(x, w, bytes, sum_0, sum_1, sum_2, sum_3);
            stream = (const int32_t *)(const void *)w;
            int32x4_t out = vqrdmulhq_s32(tw_mve_lanes(sum_0, sum_1, sum_2, sum_3), vldrwq_s32(stream));
            out = vrshlq_s32(tw_mve_away(out, -sign), vldrwq_s32(stream + FILTERS));
            out = vminq_s32(vmaxq_s32(vaddq_n_s32(out, zero), low), high);
            store_some(at, out, left);
            stream += 2 * FILTERS;
            at += FILTERS;
        }
        from += step;
        to += filters;
    }
}

#else

static void by_pixels(const tw_mve_layer *layer, int32_t bytes, const int8_t *from, int32_t step, int32_t pixels, int32_t filters,
                      int8_t *to)
{
    for (; pixels > 0; --pixels) {
        const uint32_t *stream = layer->stream;
        for (int32_t left = filters; left > 0; left -= FILTERS) {
            const int32_t count = tw_min(left, FILTERS);
            int8_t outputs[FILTERS]; /* all inputs are read before they are written: outputs may overlap inputs */
            stream = four(layer, bytes, from, stream, outputs);
            memcpy(to, outputs, (size_t)count);
            to += count;
        }
        from += step;
    }
}

#endif

/* Computes the outputs by groups of filters, two pixels at a time, and an odd last pixel by itself. The last one to three filters,
 * where no four are left, are a group, too, if `layer->rest` says so. */
TW_NOT_INLINE void by_groups(const tw_mve_layer *layer, const int8_t *from, int32_t step, int32_t pixels, int8_t *to)
{
    const int32_t filters = layer->filters, over = filters & (FILTERS - 1), rest = layer->rest, whole = filters - over;
    if (pixels > 1) {
        const tw_mve_frame frame = {
            from, from + step, layer->zero, to + whole, 2 * step, layer->stream, pixels / 2, over,
            layer->low, layer->high, to + filters, to, from + layer->bytes, rest,
        };
        products(layer, &frame);
    }
    if (pixels & 1) {
        const int32_t last = pixels - 1;
        by_pixels(layer, layer->bytes, from + last * step, 0, 1, whole + rest, to + last * filters);
    }
}

/* Computes the outputs as by_groups, but the last one or two of a pixel, where no four are left, filter by filter. */
TW_NOT_INLINE void by_filters(const tw_mve_layer *layer, const int8_t *from, int32_t step, int32_t pixels, int8_t *to)
{
    const int32_t filters = layer->filters, rest = layer->rest, fours = filters - rest;
    const uint32_t *const last_group = layer->stream + fours / FILTERS * (3 * FILTERS + layer->bytes);
    tw_mve_layer others = *layer;
    others.rest = 0;
    if (filters == 1) {
        one_filter(layer, last_group, 0, from, step, pixels, to, 1);
        return;
    }
    while (pixels > 0) {
        int8_t last[HELD];
        const int32_t count = tw_min(pixels, HELD / rest);
        for (int32_t i = 0; i < rest; ++i) {
            one_filter(layer, last_group, i, from, step, count, last + i, rest);
        }
        if (fours == 0) {
            tw_copy(to, last, count * rest);
        } else {
            by_groups(&others, from, step, count, to);
            for (int32_t i = 0; i < count; ++i) {
                for (int32_t k = 0; k < rest; ++k) {
                    to[i * filters + fours + k] = last[i * rest + k];
                }
            }
        }
        to += count * filters;
        from += count * step;
        pixels -= count;
    }
}

int tw_mve_few_products(const tw_mve_layer *layer, int32_t bytes, const int8_t *from, int32_t step, int32_t pixels, int8_t *to)
{
    const int32_t outputs = pixels * layer->filters, groups = pixels * ((layer->filters + FILTERS - 1) >> 2);
    int8_t few[TW_MVE_FEW_OUTPUTS];
    if (outputs > TW_MVE_FEW_OUTPUTS || (pixels > 1 && !FEW_GROUPS(groups, layer->bytes))) {
        return 0;
    }
    by_pixels(layer, bytes, from, step, pixels, layer->filters, few);
    tw_copy(to, few, outputs);
    return 1;
}

void tw_mve_pair_products(const tw_mve_layer *layer, const int8_t *from, int32_t step, int32_t pixels, int8_t *to)
{
    const int32_t rest = layer->rest;
    if (pixels == 1) {
        by_pixels(layer, layer->bytes, from, step, 1, layer->filters, to);
    } else if (pixels * layer->filters <= TW_MVE_FEW_OUTPUTS && tw_mve_few_products(layer, layer->bytes, from, step, pixels, to)) {
        return;
    } else if ((rest == 1 && pixels > 2) || (rest == 2 && pixels >= TWO_PIXELS && layer->bytes >= TWO_BYTES)) {
        by_filters(layer, from, step, pixels, to);
    } else {
        by_groups(layer, from, step, pixels, to);
    }
}
