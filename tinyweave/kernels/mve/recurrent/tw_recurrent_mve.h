/* tw_recurrent_mve.h - layers with a state with the Arm MVE extension.
 *
 * Weights: as the portable kernels read them. The inner loops do not subtract zero points. Instead the zero point times the sum
 * of a filter's weights is subtracted from the filter's bias when the C is emitted, modulo 2^32.
 */
#ifndef TW_RECURRENT_MVE_H
#define TW_RECURRENT_MVE_H

#include "tw_recurrent.h"

/* int8 SVDF layer. */
typedef struct {
    tw_svdf svdf;                  /* bias: not a null pointer; the state's zero point is subtracted */
    const int32_t *product_bias;   /* [units][rank]: minus the input's zero point times the sums of `weights` */
} tw_svdf_mve;

/* Cost: 10 instructions per 64 MACs with the input, and 7 per 32 MACs over time; about 135 per four filters of rank 1. */
void tw_svdf_s8_mve(const tw_svdf_mve *p, const void *in, void *state, void *out);

/* int8 LSTM. */
typedef struct {
    tw_lstm lstm;                  /* bias: the input's zero point is subtracted */
    const int32_t *recurrent_bias; /* [cells][4]: minus the hidden state's zero point times the sums of `recurrent_weights` */
} tw_lstm_mve;

/* Cost: 10 instructions per 64 MACs; 64 per cell, and 700 per eight cells. */
void tw_unidirectional_sequence_lstm_s8_mve(const tw_lstm_mve *p, const void *in, void *hidden, void *cell, void *out);

/* gru, simple_rnn and stateless_lstm. The input's zero point is subtracted in `bias`, the hidden state's in `recurrent_bias`, which
 * is not a null pointer. Scratch: as the portable kernels. */
void tw_gru_s8_mve(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_simple_rnn_s8_mve(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_stateless_lstm_s8_mve(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                              void *cell, void *scratch);

#endif
