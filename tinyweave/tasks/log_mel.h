/* Log-mel features, or MFCC, of one frame of sound, in integers: the same bytes as the Python that the network was trained with. */
#ifndef LOG_MEL_H
#define LOG_MEL_H

#include <stdint.h>

#include "log_mel_tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write LOG_MEL_FEATURES features of the last LOG_MEL_FRAME of LOG_MEL_SAMPLES samples: the bands, or with LOG_MEL_COEFFICIENTS so many MFCC of them. The next
   frame begins LOG_MEL_HOP samples later.
   scratch: LOG_MEL_FRAME words, which may be anything before and are nothing after. */
void log_mel(const int16_t *samples, int32_t *scratch, int8_t *features);

#ifdef __cplusplus
}
#endif

#endif
