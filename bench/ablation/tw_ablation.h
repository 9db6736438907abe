/* tw_ablation.h - what the kernels of bench/ablation.py share.
 *
 * tw_network.h, which the benchmark writes, says what a network needs: TW_IM2COL_WORDS, the size of the buffer of columns;
 * TW_UNROLLED, whether four rounds of the loop by im2col are one; TW_SIDE_3, TW_SIDE_5, TW_SIDE_7, whether it has depthwise
 * kernels of that height and width.
 */
#ifndef TW_ABLATION_H
#define TW_ABLATION_H

#include "tw_network.h"

#if defined(__GNUC__)
#define TW_ALONE __attribute__((noinline))           /* a function with all registers to itself */
#define TW_LATER __asm__ volatile("" : : : "memory") /* what is loaded after it is not loaded before: registers are few */
#else
#define TW_ALONE
#define TW_LATER ((void)0)
#endif

#endif
