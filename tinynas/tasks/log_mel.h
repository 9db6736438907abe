/* Log-mel features, or MFCC, of one frame of sound, in integers: the same bytes as the Python that the network was trained with. */
#ifndef LOG_MEL_H
#define LOG_MEL_H

#include <stdint.h>

#include "log_mel_tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write the LOG_MEL_FEATURES features of a frame: its bands, or LOG_MEL_COEFFICIENTS MFCC of them. The next frame begins
   LOG_MEL_HOP samples later.
   samples: LOG_MEL_SAMPLES, of which the last LOG_MEL_FRAME are the frame.
   scratch: LOG_MEL_FRAME words that the function overwrites. */
void log_mel(const int16_t *samples, int32_t *scratch, int8_t *features);

#ifdef __cplusplus
}
#endif

#endif
