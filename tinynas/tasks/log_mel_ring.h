/* log_mel_ring.h - sound as it comes: samples in, at each hop the features of the last frames, as the network takes them. */
#ifndef LOG_MEL_RING_H
#define LOG_MEL_RING_H

#include "log_mel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The samples that the next frame needs, and the features of the last `frames` frames, frames * LOG_MEL_FEATURES bytes.
   The caller provides both. */
typedef struct {
    int8_t *features;
    int32_t frames, oldest;          /* the row that is overwritten next */
    int32_t filled, skipped;         /* samples that are there; samples to pass over, where a hop is longer than a frame */
    int16_t samples[LOG_MEL_SAMPLES];
    int32_t scratch[LOG_MEL_FRAME];
} log_mel_ring;

/* Begin with silence. */
void log_mel_ring_begin(log_mel_ring *ring, int8_t *features, int32_t frames);

/* Take samples up to the end of the next frame. Return how many were taken, and in `is_new` whether a frame ended: then run the
   network. If fewer than `count` were taken, call again with the rest. */
int32_t log_mel_ring_push(log_mel_ring *ring, const int16_t *samples, int32_t count, int32_t *is_new);

/* Write the features of frames `first` .. `first + count - 1`, of which 0 is the oldest: a read_rows callback, `user` is the ring.
   Without rows: log_mel_ring_rows(&ring, 0, 0, ring.frames, NAME_input(&memory, 0)). Return 0, or -1 for frames that are not there. */
int log_mel_ring_rows(void *user, int32_t input, int32_t first, int32_t count, void *destination);

#ifdef __cplusplus
}
#endif

#endif
