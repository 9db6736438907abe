/* string.h - for compilers that come without a C library: the functions of runtime.c. */
#ifndef TW_STRING_H
#define TW_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int memcmp(const void *left, const void *right, size_t count);

#endif
