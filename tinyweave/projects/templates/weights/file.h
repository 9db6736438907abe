/* @{model}_file.h - the file @{model}.weights as an array, to begin with.
 *
 * Compiled with -DTW_PLACE_WEIGHTS, the array is in the section .tw_weights, for which the linker can be given an address.
 */
#ifndef @{NAME}_FILE_H
#define @{NAME}_FILE_H

#ifdef TW_PLACE_WEIGHTS
#define @{NAME}_FILE_SECTION __attribute__((section(".tw_weights"), aligned(16)))
#else
#define @{NAME}_FILE_SECTION __attribute__((aligned(16)))
#endif

@{kind}const uint8_t @{array}[@{NAME}_WEIGHTS_BYTES] @{NAME}_FILE_SECTION = {
@{bytes}
};
@{callback}
#endif
