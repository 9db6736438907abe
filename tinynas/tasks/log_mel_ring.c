/* log_mel_ring.c - sound as it comes, see log_mel_ring.h. */
#include "log_mel_ring.h"

#include <string.h>

void log_mel_ring_begin(log_mel_ring *ring, int8_t *features, int32_t frames)
{
    ring->features = features;
    ring->frames = frames;
    ring->oldest = ring->skipped = 0;
    ring->filled = LOG_MEL_SAMPLES - LOG_MEL_FRAME;
    ring->samples[0] = 0; /* what was before the first sample */
#if LOG_MEL_COEFFICIENTS /* of silence all but the first, the mean of its bands, are 0 */
    memset(features, 0, (size_t)frames * LOG_MEL_FEATURES);
    for (int32_t i = 0; i < frames; ++i) {
        features[i * LOG_MEL_FEATURES] = -128;
    }
#else
    memset(features, -128, (size_t)frames * LOG_MEL_FEATURES);
#endif
}

int32_t log_mel_ring_push(log_mel_ring *ring, const int16_t *samples, int32_t count, int32_t *is_new)
{
    const int32_t passed = ring->skipped < count ? ring->skipped : count;
    const int32_t missing = LOG_MEL_SAMPLES - ring->filled, rest = count - passed;
    const int32_t taken = rest < missing ? rest : missing;
    ring->skipped -= passed;
    memcpy(ring->samples + ring->filled, samples + passed, (size_t)taken * sizeof *samples);
    ring->filled += taken;
    *is_new = ring->filled == LOG_MEL_SAMPLES;
    if (*is_new) {
        const int32_t kept = LOG_MEL_SAMPLES > LOG_MEL_HOP ? LOG_MEL_SAMPLES - LOG_MEL_HOP : 0;
        log_mel(ring->samples, ring->scratch, ring->features + ring->oldest * LOG_MEL_FEATURES);
        ring->oldest = (ring->oldest + 1) % ring->frames;
        memmove(ring->samples, ring->samples + LOG_MEL_SAMPLES - kept, (size_t)kept * sizeof *samples);
        ring->filled = kept;
        ring->skipped = LOG_MEL_HOP > LOG_MEL_SAMPLES ? LOG_MEL_HOP - LOG_MEL_SAMPLES : 0;
    }
    return passed + taken;
}

int log_mel_ring_rows(void *user, int32_t input, int32_t first, int32_t count, void *destination)
{
    const log_mel_ring *ring = (const log_mel_ring *)user;
    int8_t *row = (int8_t *)destination;
    (void)input;
    if (first < 0 || count < 0 || count > ring->frames - first) {
        return -1;
    }
    for (int32_t i = first; i < first + count; ++i, row += LOG_MEL_FEATURES) {
        memcpy(row, ring->features + (ring->oldest + i) % ring->frames * LOG_MEL_FEATURES, LOG_MEL_FEATURES);
    }
    return 0;
}
