/* tw_recurrent.h - parameters of layers with a state. */
#ifndef TW_RECURRENT_H
#define TW_RECURRENT_H

#include "tw.h"

/* Multipliers of SVDF and LSTM layers are at least 2^30, or 0 with a shift of 0. */

/* int8 SVDF layer: products with the input are kept for some steps and weighted over time. */
typedef struct {
    int32_t batch, depth, units, rank;        /* units * rank filters */
    int32_t steps;                            /* how many products of a filter are kept */
    int32_t state_bytes;                      /* of an element of the state and of time_weights, 1 or 2 */
    int32_t in_zero, state_zero, out_zero;    /* zero points */
    int32_t state_multiplier, state_shift;    /* from products to the state; Q31, a positive shift goes left */
    int32_t multiplier, shift;                /* from sums over time to the output */
    const int8_t *weights;                    /* [units][rank][depth], zero point 0 */
    const void *time_weights;                 /* [units][rank][steps], zero point 0 */
    const int32_t *bias;                      /* [units], or a null pointer */
} tw_svdf;

/* state: [batch][units][rank][steps], the oldest first; it is read and replaced. Needs no scratch. */
void tw_svdf_s8(const tw_svdf *p, const void *in, void *state, void *out);
void tw_svdf_s8_dsp(const tw_svdf *p, const void *in, void *state, void *out);

/* int8 LSTM with an int16 cell state. A scale per gate: input, forget, candidate, output. */
typedef struct { int32_t multiplier[4], shift[4]; } tw_lstm_scales; /* Q31; a positive shift goes left */

typedef struct {
    int32_t batch, time, depth, cells;
    int32_t batch_step, time_step;      /* rows from one batch entry, and from one time step, to the next */
    int32_t in_zero, out_zero;          /* zero points; the hidden state has the output's */
    int32_t cell_bits;                  /* integer bits of the cell state, 0 .. 6 */
    int32_t cell_clip;                  /* of the cell state's magnitude; 0: none */
    tw_lstm_scales in, recurrent;       /* from sums to the gates' Q3.12 */
    int32_t multiplier, shift;          /* from output gate * tanh(cell), Q0.30, to the output */
    const void *weights;                /* int8 [cells][4][depth], zero point 0; with suffix _dsp as tw_dot4_dsp reads them */
    const void *recurrent_weights;      /* int8 [cells][4][cells], likewise */
    const int32_t *bias;                /* [cells][4] */
} tw_lstm;

/* hidden: int8 [batch][cells], cell: int16 [batch][cells]; both are read and replaced. Needs no scratch. */
void tw_unidirectional_sequence_lstm_s8(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out);
void tw_unidirectional_sequence_lstm_s8_dsp(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out);

/* int8 recurrent layer that starts from an initial state. Gates: reset, update and new of a GRU; one of an RNN. */
typedef struct {
    int32_t time, depth, cells;
    int32_t reverse, last;              /* from the last step to the first; writes only the state after all steps */
    int32_t variant;                    /* GRU: the recurrent product comes before the reset gate; RNN: relu, not tanh; LSTM:
                                         * integer bits of the cell state */
    int32_t in_zero, out_zero;          /* zero points; the hidden state has the output's */
    int32_t in_left, recurrent_left;    /* bits by which sums are shifted left before they are rescaled */
    int32_t multiplier;                 /* from Q0.15 to the state, which is in 1/128 of the output's step; Q16 */
    const void *weights;                /* int8 [gates][cells][depth], zero point 0, each gate padded to whole words; with
                                         * suffix _dsp each four cells as tw_dot4_dsp reads them */
    const void *recurrent_weights;      /* int8 [gates][cells][cells], likewise */
    const int32_t *bias;                /* [gates][cells] */
    const int32_t *recurrent_bias;      /* [gates][cells], or a null pointer */
    const int32_t *in_multiplier, *recurrent_multiplier; /* [gates][cells], from sums to Q12, of relu to the state; Q32 */
} tw_sequence;

/* state: int8 [cells], the hidden state before the first step; a null pointer stands for 0.
 * scratch of a GRU: int16 [cells], int8 [cells], and int8 [cells] if `variant` is 0; of an RNN: int8 [cells]. */
void tw_gru_s8(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_gru_s8_dsp(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_simple_rnn_s8(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_simple_rnn_s8_dsp(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);

/* LSTM with the gates input, forget, candidate and output. first_cell: int16 [cells], or a null pointer; cell: int16 [cells], the
 * cell state after all steps. Scratch: int8 [cells]. */
void tw_stateless_lstm_s8(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out, void *cell,
                          void *scratch);
void tw_stateless_lstm_s8_dsp(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                              void *cell, void *scratch);

#endif
