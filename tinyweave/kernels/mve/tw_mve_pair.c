/* tw_mve_pair.c - two pixels times four filters, with the Arm MVE extension. tw_mve_pair.h has the layers, the layout of the
 * weights and the cost. */
#include "tw_mve_pair.h"

#include "tw_mve_dots.h"

#define FILTERS 4
#define PAIRS 8  /* of pixels per call if there is a tail of filters */
#define FEW_BYTES 64  /* of the windows for which two filters are faster by few_filters than as a group of four */

/* Successive pairs of pixels. The assembly loads the members in this order. */
typedef struct {
    const int8_t *x_0, *x_1;   /* the inputs of the first pair */
    int32_t zero;
    int8_t *to_0_end;          /* end of the outputs of the first pixel */
    int32_t x_step;            /* bytes to the inputs of the next pair */
    const uint32_t *stream;
    int32_t pairs;
    int32_t gap;               /* bytes from the end of a pixel's outputs to the next pixel */
    int32_t low, high;
    int8_t *to_1, *to_0;       /* the outputs of the first pair */
    const int8_t *x_0_end;     /* end of the inputs of the first pixel */
} tw_mve_frame;

#if TW_HAS_MVE

/* Sixteen inputs of both pixels, in the vectors x_0 and x_1, times four filters.
 * Registers: r0, r2, r4, r6: sums of pixel 0; r8, r10, r12, lr: of pixel 1. VMLADAVA accumulates in even registers only, so the
 * eight sums take all of them. r3: stream; q2, q3: weights, alternately.
 * Order: the next filter's weights are loaded before the second product with the current ones, so loads and products overlap.
 * Equals the two inner loops of four(), for both pixels. */
#define PRODUCTS(x_0, x_1)            \
    "vldrb.8 q2, [r3], #16\n"         \
    "vmladava.s8 r0, " x_0 ", q2\n"   \
    "vldrb.8 q3, [r3], #16\n"         \
    "vmladava.s8 r8, " x_1 ", q2\n"   \
    "vldrb.8 q2, [r3], #16\n"         \
    "vmladava.s8 r2, " x_0 ", q3\n"   \
    "vmladava.s8 r10, " x_1 ", q3\n"  \
    "vldrb.8 q3, [r3], #16\n"         \
    "vmladava.s8 r4, " x_0 ", q2\n"   \
    "vmladava.s8 r12, " x_1 ", q2\n"  \
    "vmladava.s8 r6, " x_0 ", q3\n"   \
    "vmladava.s8 lr, " x_1 ", q3\n"

/* Both pixels begin with the biases. */
#define BIASES "ldm.w r3, {r8, r10, r12, lr}\nldm.w r3!, {r0, r2, r4, r6}\n"

/* Between the two roundings, as TW_FIX in tw_dsp.h. */
#define FIX "vshr.s32 q3, q0, #31\nvadd.i32 q0, q0, q3\nvshr.s32 q3, q1, #31\nvadd.i32 q1, q1, q3\n"
#define NO_FIX
/* Outputs of four filters of both pixels: q0, q1: the sums as vectors, then outputs; q2: multipliers, then shifts; q4, q5: the
 * clamp; r7, r5: where the outputs of pixel 0 and 1 go. load_ends: loads `zero`, the output's zero point, and `end` of the
 * outputs into registers that held sums. Equals the last loop of four(), for both pixels. */
#define FINISH(load_ends, fix, zero, end) \
    "vmov q0[2], q0[0], r0, r4\n"         \
    "vmov q0[3], q0[1], r2, r6\n"         \
    "vldrw.32 q2, [r3], #16\n"            \
    "vmov q1[2], q1[0], r8, r12\n"        \
    "vqrdmulh.s32 q0, q0, q2\n"           \
    "vmov q1[3], q1[1], r10, lr\n"        \
    "vqrdmulh.s32 q1, q1, q2\n"           \
    load_ends                             \
    fix                                   \
    "vldrw.32 q2, [r3], #16\n"            \
    "vrshl.s32 q0, q0, q2\n"              \
    "vrshl.s32 q1, q1, q2\n"              \
    "vadd.i32 q0, q0, " zero "\n"         \
    "vadd.i32 q1, q1, " zero "\n"         \
    "vmax.s32 q0, q0, q4\n"               \
    "vmax.s32 q1, q1, q4\n"               \
    "vmin.s32 q0, q0, q5\n"               \
    "vmin.s32 q1, q1, q5\n"               \
    "vstrb.32 q0, [r7], #4\n"             \
    "vstrb.32 q1, [r5], #4\n"             \
    "cmp r7, " end "\n"

/* Sixteen inputs of both pixels from r1 and r9. */
#define CHUNK                  \
    "vldrb.8 q0, [r1], #16\n"  \
    "vldrb.8 q1, [r9], #16\n"  \
    PRODUCTS("q0", "q1")

/* Saves r4 .. r11, since the code needs all registers, and puts the first eight members of the frame on the stack, 64 bytes in
 * all: [sp] x_0, +4 x_1, +8 zero, +12 to_0_end, +16 x_step, +20 stream, +24 pairs, +28 gap. */
#define ENTER                       \
    "push {r4-r11}\n"               \
    "ldm.w r0, {r1-r8}\n"           \
    "push {r1-r8}\n"                \
    "mov r3, r6\n"                  \
    "add r1, r0, #32\n"             \
    "ldm.w r1, {r2, r4, r5, r7, r11}\n" \
    "vdup.32 q4, r2\n"              \
    "vdup.32 q5, r4\n"
/* Counts a pair down; else moves the outputs to the next pair. Leaves x_step in r2, the stream in r3, gap in r6. */
#define NEXT_PAIR                   \
    "ldr r0, [sp, #24]\n"           \
    "subs r0, r0, #1\n"             \
    "beq 4f\n"                      \
    "str r0, [sp, #24]\n"           \
    "ldrd r2, r3, [sp, #16]\n"      \
    "ldr r6, [sp, #28]\n"           \
    "sub r4, r5, r7\n"              \
    "add r7, r5, r6\n"              \
    "add r5, r7, r4\n"
#define LEAVE                       \
    "4:\n"                          \
    "add sp, sp, #32\n"             \
    "pop {r4-r11}\n"

/* All pairs, for windows of more than sixteen inputs; chunks: one CHUNK or two, unrolled. r1, r9: inputs of both pixels; r11:
 * end of the inputs of pixel 0. Label 1: a pair; 2: a group of filters; 3: inputs. Equals products() below in plain C. */
#define PAIRS_OF_MANY(chunks, fix)                     \
    ENTER                                              \
    "1:\n"                                             \
    "2:\n"                                             \
    "ldrd r1, r9, [sp]\n"                              \
    BIASES                                             \
    "3:\n"                                             \
    chunks                                             \
    "cmp r1, r11\n"                                    \
    "bne 3b\n"                                         \
    FINISH("ldrd r0, r2, [sp, #8]\n", fix, "r0", "r2") \
    "bne 2b\n"                                         \
    NEXT_PAIR                                          \
    "ldrd r0, r1, [sp]\n"                              \
    "add r0, r0, r2\n"                                 \
    "add r1, r1, r2\n"                                 \
    "add r11, r11, r2\n"                               \
    "strd r0, r1, [sp]\n"                              \
    "sub r4, r5, r6\n"                                 \
    "str r4, [sp, #12]\n"                              \
    "b 1b\n"                                           \
    LEAVE

/* The same for windows of at most sixteen inputs, which stay in q6 and q7 for all filters. r9: zero point; r11: end of the
 * outputs of pixel 0, so that FINISH loads nothing. */
#define PAIRS_OF_SIXTEEN(fix)    \
    ENTER                        \
    "ldrd r1, r2, [sp]\n"        \
    "ldrd r9, r11, [sp, #8]\n"   \
    "vldrb.8 q6, [r1]\n"         \
    "vldrb.8 q7, [r2]\n"         \
    "1:\n"                       \
    BIASES                       \
    PRODUCTS("q6", "q7")         \
    FINISH("", fix, "r9", "r11") \
    "bne 1b\n"                   \
    NEXT_PAIR                    \
    "sub r11, r5, r6\n"          \
    "add r1, r1, r2\n"           \
    "add r2, r1, r2, lsr #1\n"   \
    "vldrb.8 q6, [r1]\n"         \
    "vldrb.8 q7, [r2]\n"         \
    "b 1b\n"                     \
    LEAVE

#define RUN(code)                                                                                               \
    __asm__ volatile(code : "+r"(frame) : : "r1", "r2", "r3", "r12", "lr", "d0", "d1", "d2", "d3", "d4", "d5",  \
                     "d6", "d7", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15", "cc", "memory")

#define RUN_SIXTEEN(fix) RUN(PAIRS_OF_SIXTEEN(fix))
#define RUN_TWOS(fix) RUN(PAIRS_OF_MANY(CHUNK CHUNK, fix))
#define RUN_ONES(fix) RUN(PAIRS_OF_MANY(CHUNK, fix))

/* Computes the outputs of all pairs for whole groups of four filters. */
static void products(const tw_mve_frame *pair, int32_t sign)
{
    register const tw_mve_frame *frame __asm__("r0") = pair;
    const int32_t chunks = (int32_t)(pair->x_0_end - pair->x_0) / TW_MVE_LANES;
    if (chunks == 1) {
        TW_BY_SIGN(sign, RUN_SIXTEEN, FIX, NO_FIX);
    } else if (chunks % 2 == 0) {
        TW_BY_SIGN(sign, RUN_TWOS, FIX, NO_FIX);
    } else {
        TW_BY_SIGN(sign, RUN_ONES, FIX, NO_FIX);
    }
}

#else

/* Computes the outputs of four filters of one pixel; returns the end of their stream. */
static const uint32_t *four(const tw_mve_frame *pair, const int8_t *x, const uint32_t *stream, int32_t sign, int8_t *to)
{
    const int32_t bytes = (int32_t)(pair->x_0_end - pair->x_0);
    const int8_t *weights = (const int8_t *)(stream + FILTERS);
    uint32_t sums[FILTERS] = {stream[0], stream[1], stream[2], stream[3]};
    for (int32_t begin = 0; begin < bytes; begin += TW_MVE_LANES) {
        for (int32_t i = 0; i < FILTERS; ++i) {
            for (int32_t k = begin; k < begin + TW_MVE_LANES; ++k) {
                sums[i] += (uint32_t)(x[k] * *weights++);
            }
        }
    }
    stream += FILTERS + bytes;
    for (int32_t i = 0; i < FILTERS; ++i) {
        const int32_t multiplier = (int32_t)stream[i], shift = (int32_t)stream[FILTERS + i];
        const int32_t scaled = tw_mve_rescale((int32_t)sums[i], multiplier, shift, sign);
        to[i] = (int8_t)tw_clamp(scaled + pair->zero, pair->low, pair->high);
    }
    return stream + 2 * FILTERS;
}

static void products(const tw_mve_frame *pair, int32_t sign)
{
    const int8_t *x_0 = pair->x_0, *x_1 = pair->x_1;
    int8_t *to_0 = pair->to_0, *to_1 = pair->to_1, *end = pair->to_0_end;
    const int32_t apart = (int32_t)(to_1 - to_0);
    for (int32_t i = 0; i < pair->pairs; ++i) {
        const uint32_t *stream = pair->stream;
        for (; to_0 != end; to_0 += FILTERS, to_1 += FILTERS) {
            int8_t first[FILTERS], second[FILTERS]; /* both are read before either is written: outputs may overlap inputs */
            four(pair, x_0, stream, sign, first);
            stream = four(pair, x_1, stream, sign, second);
            memcpy(to_0, first, FILTERS);
            memcpy(to_1, second, FILTERS);
        }
        x_0 += pair->x_step;
        x_1 += pair->x_step;
        to_0 = to_1 + pair->gap;
        to_1 = to_0 + apart;
        end = to_1 - pair->gap;
    }
}

#endif

TW_MVE_DOTS(dots_of_filters, 16, 64) /* a pixel and the filters of a group, whose vectors alternate in the stream */
TW_MVE_DOTS(dots_of_pixels, 64, 16)  /* a filter and four pixels */

#if TW_HAS_MVE

/* Outputs of four sums. */
static inline int32x4_t outputs(const tw_mve_layer *layer, const int32_t *sums, int32x4_t multipliers, int32x4_t shifts)
{
    const int32x4_t high = tw_mve_away(vqrdmulhq_s32(vldrwq_s32(sums), multipliers), -layer->sign);
    const int32x4_t out = vaddq_n_s32(vrshlq_s32(high, shifts), layer->zero);
    return vminq_s32(vmaxq_s32(out, vdupq_n_s32(layer->low)), vdupq_n_s32(layer->high));
}

/* Writes the outputs of the four filters of a group; factors: their multipliers, then their shifts. */
static inline void put_filters(const tw_mve_layer *layer, const int32_t *sums, const int32_t *factors, int8_t *to)
{
    vstrbq_s32(to, outputs(layer, sums, vldrwq_s32(factors), vldrwq_s32(factors + FILTERS)));
}

/* Writes the outputs of a filter of `pixels` pixels, at most four, `apart` bytes apart. */
static inline void put_pixels(const tw_mve_layer *layer, const int32_t *sums, const int32_t *factors, int8_t *to, int32_t apart,
                              int32_t pixels)
{
    const int32x4_t out = outputs(layer, sums, vdupq_n_s32(factors[0]), vdupq_n_s32(factors[FILTERS]));
    vstrbq_scatter_offset_p_s32(to, vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)apart), out, vctp32q((uint32_t)pixels));
}

#else

static inline int8_t output(const tw_mve_layer *layer, int32_t sum, int32_t multiplier, int32_t shift)
{
    return (int8_t)tw_clamp(tw_mve_rescale(sum, multiplier, shift, layer->sign) + layer->zero, layer->low, layer->high);
}

static inline void put_filters(const tw_mve_layer *layer, const int32_t *sums, const int32_t *factors, int8_t *to)
{
    for (int i = 0; i < FILTERS; ++i) {
        to[i] = output(layer, sums[i], factors[i], factors[FILTERS + i]);
    }
}

static inline void put_pixels(const tw_mve_layer *layer, const int32_t *sums, const int32_t *factors, int8_t *to, int32_t apart,
                              int32_t pixels)
{
    for (int32_t i = 0; i < tw_min(pixels, 4); ++i) {
        to[i * apart] = output(layer, sums[i], factors[0], factors[FILTERS]);
    }
}

#endif

/* Computes the outputs of `groups` groups of four filters of one pixel. */
static void one_pixel(const tw_mve_layer *layer, const uint32_t *stream, int32_t groups, const int8_t *x, int8_t *to)
{
    for (; groups > 0; --groups) {
        const int8_t *const weights = (const int8_t *)(stream + FILTERS);
        const int8_t *const four[FILTERS] = {weights, weights + 16, weights + 32, weights + 48};
        int32_t sums[FILTERS];
        memcpy(sums, stream, sizeof sums);
        dots_of_filters(x, four, layer->bytes, sums);
        stream += FILTERS + layer->bytes;
        put_filters(layer, sums, (const int32_t *)stream, to);
        stream += 2 * FILTERS;
        to += FILTERS;
    }
}

/* Computes the outputs of `filters` filters of the group at `stream` for any number of pixels, four pixels at a time. `apart`
 * bytes lead from a pixel's outputs to the next one's. */
static void few_filters(const tw_mve_layer *layer, const uint32_t *stream, int32_t filters, const int8_t *from, int32_t step,
                        int32_t pixels, int8_t *to, int32_t apart)
{
    const int32_t *const factors = (const int32_t *)(stream + FILTERS + layer->bytes);
    for (; pixels > 0; pixels -= 4) {
        const int8_t *four[4] = {from, from, from, from}; /* those beyond the last pixel repeat the first */
        for (int32_t i = 1; i < tw_min(pixels, 4); ++i) {
            four[i] = from + i * step;
        }
        for (int32_t i = 0; i < filters; ++i) {
            const int32_t bias = (int32_t)stream[i];
            int32_t sums[4] = {bias, bias, bias, bias};
            dots_of_pixels((const int8_t *)(stream + FILTERS) + i * TW_MVE_LANES, four, layer->bytes, sums);
            put_pixels(layer, sums, factors + i, to + i, apart, pixels);
        }
        from += 4 * step;
        to += 4 * apart;
    }
}

/* Computes the outputs of `filters` filters, whole groups at `stream`, for an even number of pixels. `apart` bytes lead from a
 * pixel's outputs to the next one's. */
static void pairs(const tw_mve_layer *layer, const uint32_t *stream, int32_t filters, const int8_t *from, int32_t step,
                  int32_t pixels, int8_t *to, int32_t apart)
{
    const tw_mve_frame frame = {from, from + step, layer->zero, to + filters, 2 * step, stream, pixels / 2, apart - filters,
                                layer->low, layer->high, to + apart, to, from + layer->bytes};
    products(&frame, layer->sign);
}

/* The last one to three outputs of a pixel, where no four are left, have a group of filters as others do. Where pixels are read
 * from a map that is overwritten, they are computed first. */
void tw_mve_pair_products(const tw_mve_layer *layer, const int8_t *from, int32_t step, int32_t pixels, int8_t *to)
{
    const int32_t filters = layer->filters, rest = filters % FILTERS, fours = filters - rest;
    const uint32_t *const last_group = layer->stream + fours / FILTERS * (3 * FILTERS + layer->bytes);
    int8_t last[2 * PAIRS * FILTERS];
    if (filters == 1) {
        few_filters(layer, last_group, 1, from, step, pixels, to, 1);
        return;
    }
    while (pixels > 0) {
        const int32_t count = pixels == 1 ? 1 : 2 * tw_min(pixels / 2, rest ? PAIRS : pixels);
        if (count == 1) {
            one_pixel(layer, last_group, rest > 0, from, last);
            one_pixel(layer, layer->stream, fours / FILTERS, from, to);
        } else {
            if (rest == 1 || (rest == 2 && layer->bytes >= FEW_BYTES)) {
                few_filters(layer, last_group, rest, from, step, count, last, FILTERS);
            } else if (rest > 0) {
                pairs(layer, last_group, FILTERS, from, step, count, last, FILTERS);
            }
            if (fours > 0) {
                pairs(layer, layer->stream, fours, from, step, count, to, filters);
            }
        }
        for (int32_t i = 0; i < count && rest > 0; ++i) {
            int8_t *const rest_to = to + i * filters + fours;
            for (int32_t k = 0; k < rest; ++k) {
                rest_to[k] = last[i * FILTERS + k];
            }
        }
        to += count * filters;
        pixels -= count;
        from += count * step;
    }
}
