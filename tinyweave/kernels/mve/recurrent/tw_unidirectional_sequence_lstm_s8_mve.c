/* tw_unidirectional_sequence_lstm_s8_mve.c - int8 LSTM with the Arm MVE extension.
 *
 * First the gates of eight cells are computed. The sums of a cell's four gates are one vector, which is scattered to four rows.
 * Then the activations and the new states of the eight cells are computed as vectors of int16. */
#include "tw_recurrent_mve.h"

#include "tw_lstm.h"
#include "tw_mve_dots.h"

#define GATES 4
#define CELLS 8 /* at a time: 16-bit lanes */

#if TW_HAS_MVE

/* exp_step of tw_q15.c: shifts a bit of `quarters` to the sign and, if it is set, multiplies e by a power. */
#define EXP_STEP(bit, power)                       \
    "vshl.i16 %q[t], %q[quarters], #15 - " #bit "\n" \
    "vpt.s16 lt, %q[t], zr\n"                      \
    "vqrdmulht.s16 %q[e], %q[e], %[" power "]\n"

/* newton_step of tw_q15.c; one: 1 in Q2.13. */
static inline int16x8_t newton_step(int16x8_t half_denominator, int16x8_t one, int16x8_t x)
{
    const int16x8_t error = vsubq_s16(one, vqrdmulhq_s16(half_denominator, x));
    return vaddq_s16(x, vshlq_n_s16(vqrdmulhq_s16(x, error), 2));
}

/* 2 / (1 + exp(-|x|)) in Q2.13 as tw_q15.c computes it, but exactly 1 if x is 0; integer_bits: 0 .. 7. VQRDMULH rounds as
 * tw_high_mul16. Predicated instructions are assembly: GCC moves predicates of intrinsics to core registers and back. */
TW_NOT_INLINE int16x8_t reciprocal(int16x8_t x, int32_t integer_bits)
{
    /* -|x| modulo 1/4, less 1/8, in Q0.15: the bits below a quarter are shifted to the left end of the lane and back */
    const uint16x8_t magnitude = vreinterpretq_u16_s16(vabsq_s16(x));
    const uint16x8_t rest = vshlq_r_u16(vreinterpretq_u16_s16(vnegq_s16(vreinterpretq_s16_u16(magnitude))), integer_bits + 3);
    const int16x8_t a = vsubq_n_s16(vreinterpretq_s16_u16(vshrq_n_u16(rest, 3)), 1 << 12);
    const uint16x8_t quarters = vshlq_r_u16(vsubq_n_u16(magnitude, 1), integer_bits - 13);
    const int16x8_t a2 = vqrdmulhq_s16(a, a), a3 = vqrdmulhq_s16(a2, a), a4_over_4 = vrshrq_n_s16(vqrdmulhq_s16(a2, a2), 2);
    const int16x8_t higher = vrhaddq_s16(vqrdmulhq_n_s16(vaddq_s16(a4_over_4, a3), 10923), a2);
    int16x8_t e = vqrdmlahq_n_s16(vdupq_n_s16(28918), vaddq_s16(a, higher), 28918), t;
    __asm__(
        EXP_STEP(0, "p_0")
        EXP_STEP(1, "p_1")
        EXP_STEP(2, "p_2")
        EXP_STEP(3, "p_3")
        EXP_STEP(4, "p_4")
        EXP_STEP(5, "p_5")
        "vpt.u16 cs, %q[quarters], %[end]\n"
        "vmovt.i16 %q[e], #0\n"
        : [e] "+w"(e), [t] "=&w"(t)
        : [quarters] "w"(quarters), [p_0] "r"(25520), [p_1] "r"(19875), [p_2] "r"(12055), [p_3] "r"(4435), [p_4] "r"(600),
          [p_5] "r"(11), [end] "r"(64)
        : TW_MVE_PREDICATE);
    const int16x8_t half_denominator = vreinterpretq_s16_u16(vhaddq_n_u16(vreinterpretq_u16_s16(e), 1 << 15));
    const int16x8_t one = vdupq_n_s16(1 << 13);
    int16x8_t result = vqrdmlahq_n_s16(vdupq_n_s16(23130), half_denominator, -15420);
    result = newton_step(half_denominator, one, result);
    result = newton_step(half_denominator, one, result);
    result = newton_step(half_denominator, one, result);
    __asm__("vpt.i16 eq, %q1, zr\nvmovt %q0, %q2\n" : "+w"(result) : "w"(x), "w"(one) : TW_MVE_PREDICATE);
    return result;
}

/* tw_logistic_q15 of each lane. */
static inline int16x8_t logistic(int16x8_t x, int32_t integer_bits)
{
    const int16x8_t half = reciprocal(x, integer_bits), positive = vqaddq_s16(half, half);
    const uint16x8_t flip = vshrq_n_u16(vreinterpretq_u16_s16(vshrq_n_s16(x, 15)), 1); /* 32767 if x < 0, else 0 */
    return veorq_s16(positive, vreinterpretq_s16_u16(flip));
}

/* `magnitude` with the sign of x. */
static inline int16x8_t with_sign(int16x8_t magnitude, int16x8_t x)
{
    const int16x8_t sign = vshrq_n_s16(x, 15);
    return vsubq_s16(veorq_s16(magnitude, sign), sign);
}

/* tw_tanh_q15 of each lane. */
static inline int16x8_t tanh_of(int16x8_t x, int32_t integer_bits)
{
    return with_sign(vqshlq_n_s16(vsubq_n_s16(reciprocal(x, integer_bits + 1), 1 << 13), 2), x);
}

/* tw_lstm_step of `count` cells. gates: [gate][cell]; other cells' gates may have any value.
 * Products of magnitudes are rounded half up and then get their sign, which rounds half away from zero. VMULH gives
 * input * candidate / 2^14, rounded down, since both factors are doubled. */
TW_NOT_INLINE void update(const tw_lstm *p, const int16_t *gates, int32_t count, int16_t *cells, int8_t *now)
{
    const mve_pred16_t some = vctp16q((uint32_t)count);
    const int32_t gate_bits = 3, clip = p->cell_clip;
    const int16x8_t forget = logistic(vldrhq_s16(gates + CELLS), gate_bits), cell = vldrhq_z_s16(cells, some);
    const uint16x8_t twice = vreinterpretq_u16_s16(vshlq_n_s16(forget, 1));
    const int16x8_t kept = with_sign(vreinterpretq_s16_u16(vrmulhq_u16(vreinterpretq_u16_s16(vabsq_s16(cell)), twice)), cell);
    const int16x8_t candidate = tanh_of(vldrhq_s16(gates + 2 * CELLS), gate_bits), input = logistic(vldrhq_s16(gates), gate_bits);
    const uint16x8_t product = vmulhq_u16(vreinterpretq_u16_s16(vshlq_n_s16(vabsq_s16(candidate), 1)),
                                          vreinterpretq_u16_s16(vshlq_n_s16(input, 1)));
    const int16x8_t added = with_sign(vreinterpretq_s16_u16(vrshlq_n_u16(product, -1 - p->cell_bits)), candidate);
    int16x8_t state = vqaddq_s16(kept, added);
    if (clip > 0) {
        state = vminq_s16(vmaxq_s16(state, vdupq_n_s16((int16_t)-clip)), vdupq_n_s16((int16_t)clip));
    }
    vstrhq_p_s16(cells, state, some);
    const int16x8_t output = logistic(vldrhq_s16(gates + 3 * CELLS), gate_bits), squashed = tanh_of(state, p->cell_bits);
    const int32x4_t even = tw_mve_requantize(vmullbq_int_s16(output, squashed), p->multiplier, p->shift);
    const int32x4_t odd = tw_mve_requantize(vmulltq_int_s16(output, squashed), p->multiplier, p->shift);
    const int16x8_t scaled = vqmovntq_s32(vqmovnbq_s32(squashed, even), odd); /* all lanes of `squashed` are replaced */
    const int16x8_t low = vdupq_n_s16(-128), high = vdupq_n_s16(127);
    vstrbq_p_s16(now, vminq_s16(vmaxq_s16(vqaddq_n_s16(scaled, (int16_t)p->out_zero), low), high), some);
}

/* Scales per gate, as tw_mve_requantize_lanes takes them. */
typedef struct { int32x4_t multiplier, left, right; } scales;

static inline scales scales_of(const tw_lstm_scales *given)
{
    const int32x4_t zero = vdupq_n_s32(0), shift = vldrwq_s32(given->shift);
    const scales found = {vldrwq_s32(given->multiplier), vmaxq_s32(shift, zero), vminq_s32(shift, zero)};
    return found;
}

static inline int32x4_t scaled_by(int32x4_t sum, const scales *by)
{
    return tw_mve_requantize_lanes(sum, by->multiplier, by->left, by->right);
}

/* The gates of `count` cells, [gate][cell], from their sums of products. */
TW_NOT_INLINE void compute_gates(const tw_lstm_mve *m, int32_t cell, int32_t count, const int8_t *in, const int8_t *past,
                                 int16_t *gates)
{
    const tw_lstm *const p = &m->lstm;
    const int32_t depth = p->depth, all = p->cells;
    const scales first = scales_of(&p->in), second = scales_of(&p->recurrent);
    const int8_t *weights = (const int8_t *)p->weights + GATES * cell * depth;
    const int8_t *again = (const int8_t *)p->recurrent_weights + GATES * cell * all;
    const int32_t *bias = p->bias + GATES * cell, *recurrent_bias = m->recurrent_bias + GATES * cell;
    const uint32x4_t rows = vshlq_n_u32(vidupq_n_u32(0, CELLS / 4), 2);
    for (int32_t i = 0; i < count; ++i) {
        int32x4_t sum = tw_mve_vector(tw_mve_dots(in, weights, GATES, depth));
        sum = scaled_by(vaddq_s32(sum, vldrwq_s32(bias)), &first);
        int32x4_t more = tw_mve_vector(tw_mve_dots(past, again, GATES, all));
        more = scaled_by(vaddq_s32(more, vldrwq_s32(recurrent_bias)), &second);
        int16x8_t narrow = vqmovnbq_s32(vreinterpretq_s16_s32(sum), sum);
        narrow = vqmovnbq_s32(narrow, vaddq_s32(vmovlbq_s16(narrow), more));
        vstrhq_scatter_shifted_offset_s32(gates + i, rows, vreinterpretq_s32_s16(narrow));
        weights += GATES * depth;
        again += GATES * all;
        bias += GATES;
        recurrent_bias += GATES;
    }
}

/* A tw_lstm_cells. `p` is the first member of a tw_lstm_mve. */
static void cells_of(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now)
{
    for (int32_t cell = 0; cell < p->cells; cell += CELLS) {
        const int32_t count = tw_min(p->cells - cell, CELLS);
        int16_t gates[GATES * CELLS];
        compute_gates((const tw_lstm_mve *)(const void *)p, cell, count, in, past, gates);
        update(p, gates, count, cells + cell, now + cell);
    }
}

#else

static void cells_of(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now)
{
    const int32_t *const recurrent_bias = ((const tw_lstm_mve *)(const void *)p)->recurrent_bias;
    for (int32_t cell = 0; cell < p->cells; ++cell) {
        tw_mve_sums sums = tw_mve_dots(in, (const int8_t *)p->weights + GATES * cell * p->depth, GATES, p->depth);
        tw_mve_sums again = tw_mve_dots(past, (const int8_t *)p->recurrent_weights + GATES * cell * p->cells, GATES, p->cells);
        int32_t gates[GATES];
        for (int32_t gate = 0; gate < GATES; ++gate) {
            sums.of[gate] = tw_add_bias(sums.of[gate], p->bias, GATES * cell + gate);
            again.of[gate] = tw_add_bias(again.of[gate], recurrent_bias, GATES * cell + gate);
        }
        tw_lstm_gates(p, sums.of, again.of, gates);
        now[cell] = tw_lstm_step(p, gates, cells + cell);
    }
}

#endif

void tw_unidirectional_sequence_lstm_s8_mve(const tw_lstm_mve *p, const void *in, void *hidden, void *cell, void *out)
{
    tw_lstm_over(&p->lstm, in, hidden, cell, out, cells_of);
}
