/* @{name}_example.h - runs every model of the package on samples that are part of it. */
#ifndef @{NAME}_EXAMPLE_H
#define @{NAME}_EXAMPLE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Print a line for each sample: the class with the highest score, or the first values. Return how many outputs are not the
 * reference's bytes: 0 when all is well. `print` gets the text in pieces. */
int @{name}_example(void (*print)(const char *text));

#ifdef __cplusplus
}
#endif

#endif
