/* tw_recurrent_mve.h - layers with a state with the Arm MVE extension.
 *
 * The products of inputs with weights do not subtract zero points: each bias has the zero point times the sum of the weights
 * subtracted. Weights are as the portable kernels read them.
 */
#ifndef TW_RECURRENT_MVE_H
#define TW_RECURRENT_MVE_H

#include "tw_recurrent.h"

/* int8 SVDF layer. */
typedef struct {
    tw_svdf svdf;                  /* bias: never a null pointer; includes the part of the state's zero point */
    const int32_t *product_bias;   /* [units][rank]: the part of the input's zero point */
} tw_svdf_mve;

void tw_svdf_s8_mve(const tw_svdf_mve *p, const void *in, void *state, void *out);

/* int8 LSTM. */
typedef struct {
    tw_lstm lstm;                  /* bias: includes the part of the input's zero point */
    const int32_t *recurrent_bias; /* [cells][4]: the part of the hidden state's zero point */
} tw_lstm_mve;

void tw_unidirectional_sequence_lstm_s8_mve(const tw_lstm_mve *p, const void *in, void *hidden, void *cell, void *out);

/* The kernels of tw_sequence: `bias` includes the part of the input's zero point, and `recurrent_bias`, never a null pointer, that
 * of the hidden state's. Scratch is that of the portable kernels. */
void tw_gru_s8_mve(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_simple_rnn_s8_mve(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch);
void tw_stateless_lstm_s8_mve(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                              void *cell, void *scratch);

#endif
