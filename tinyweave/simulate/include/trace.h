/* trace.h - the trace hook of a build for the emulator: the end of a step calls tw_trace, layers of a stage cost nothing. */
#include <stdint.h>

/* The emulator recognises the end of a step by this function. It is a single basic block. */
void tw_trace(int32_t step);

static inline __attribute__((always_inline)) void tw_trace_all(int32_t step, int32_t layer)
{
    if (layer < 0) {
        tw_trace(step);
    }
}
