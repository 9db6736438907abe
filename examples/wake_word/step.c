/* step.c - samples of one hop in, scores out, so that the emulated core counts all that a step takes. */
#include "step.h"

#include <stddef.h>

#include "log_mel_ring.h"

static int8_t features[LOG_MEL_FEATURES];
static log_mel_ring ring;

int step_init(const wake_word_memory *memory)
{
    log_mel_ring_begin(&ring, features, 1);
    return wake_word_init(memory);
}

void step_reset(const wake_word_memory *memory)
{
    log_mel_ring_begin(&ring, features, 1);
    wake_word_reset(memory);
}

/* The samples lie behind the network's arena. */
void *step_input(const wake_word_memory *memory, int32_t index)
{
    (void)index;
    return (uint8_t *)memory->sram.data + STEP_SAMPLES_AT;
}

const void *step_output(const wake_word_memory *memory, int32_t index)
{
    return wake_word_output(memory, index);
}

int step_invoke(const wake_word_memory *memory, const void *io)
{
    int32_t is_new;
    (void)io;
    (void)log_mel_ring_push(&ring, (const int16_t *)step_input(memory, 0), LOG_MEL_HOP, &is_new);
    if (!is_new) { /* the first frame is two hops long */
        return 0;
    }
    (void)log_mel_ring_rows(&ring, 0, 0, 1, wake_word_input(memory, 0));
    return wake_word_invoke(memory, NULL);
}
