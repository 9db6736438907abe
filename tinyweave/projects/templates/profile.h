/* @{name}_profile.h - cycles by layer of an inference, for `tinyweave profile MODEL --compare log.txt`.
 *
 * Nothing is measured, and nothing of it is compiled, unless the C of the models is compiled with
 * -DTW_TRACE=@{name}_profile_step. Of layers that run together row by row each has what its kernel and the code before its calls
 * took.
 *
 * Cycles come from the DWT counter on Arm (v7-M and later) and from mcycle on RISC-V. If the core has no such counter, or the
 * counter stands still, as in QEMU, they come from the SDK: k_cycle_get_32() of Zephyr, ztimer of RIOT, micros() of Arduino,
 * SysTick of STM32Cube. Espressif's SDK always counts. Elsewhere name a function of yours, uint32_t function(void), that counts
 * up: -DTW_CYCLES=function.
 */
#ifndef @{NAME}_PROFILE_H
#define @{NAME}_PROFILE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A layer of a stage, or, with layer -1, one that is the step. */
typedef struct {
    int32_t step, layer;
    const char *name;
} @{name}_profile_row;

#ifdef TW_TRACE
void @{name}_profile_begin(void); /* just before invoke */

/* What invoke calls after each step, with layer -1, and after each call of a kernel in a stage that runs row by row. */
void @{name}_profile_step(int32_t step, int32_t layer);

/* After invoke: a line for each row. */
void @{name}_profile_print(void (*print)(const char *text), const char *model, const @{name}_profile_row *rows, int32_t count);
#else
#define @{name}_profile_begin() ((void)0)
#define @{name}_profile_print(print, model, rows, count) ((void)(rows))
#endif

#ifdef __cplusplus
}
#endif

#endif
