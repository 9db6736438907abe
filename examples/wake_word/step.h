/* step.h - a whole step as a model of its own, which the emulated core runs as it runs a network. */
#ifndef STEP_H
#define STEP_H

#include <stdint.h>

#include "wake_word.h"

#define STEP_SAMPLES_AT ((WAKE_WORD_SRAM_BYTES + 15) / 16 * 16) /* behind the arena */

int step_init(const wake_word_memory *memory);
void step_reset(const wake_word_memory *memory);
void *step_input(const wake_word_memory *memory, int32_t index); /* LOG_MEL_HOP samples, int16 */
const void *step_output(const wake_word_memory *memory, int32_t index);
int step_invoke(const wake_word_memory *memory, const void *io);

#endif
