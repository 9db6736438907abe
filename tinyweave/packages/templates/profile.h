/* @{name}_profile.h - cycles by step of an inference, for `tinyweave profile MODEL --measured log.txt`.
 *
 * Nothing is measured, and nothing of it is compiled, unless the C of the models is compiled with
 * -DTW_TRACE=@{name}_profile_step. A step is a layer, or layers that run together row by row.
 *
 * Cycles come from the DWT counter on Arm (v7-M and later), from mcycle on RISC-V, from the SDK on Espressif's chips, and else
 * from a function of yours: -DTW_CYCLES=function, uint32_t function(void), counting up.
 */
#ifndef @{NAME}_PROFILE_H
#define @{NAME}_PROFILE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef TW_TRACE
void @{name}_profile_begin(void);       /* just before invoke */
void @{name}_profile_step(int32_t step); /* what invoke calls after each step */

/* After invoke: a line for each step. layers: their names. */
void @{name}_profile_print(void (*print)(const char *text), const char *model, const char *const *layers, int32_t steps);
#else
#define @{name}_profile_begin() ((void)0)
#define @{name}_profile_print(print, model, layers, steps) ((void)(layers))
#endif

#ifdef __cplusplus
}
#endif

#endif
