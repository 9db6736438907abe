/* tw_word.h - four bytes at any address as a word. */
#ifndef TW_WORD_H
#define TW_WORD_H

#include <string.h>

#include "tw.h"

#if defined(__GNUC__)
#define TW_COPY __builtin_memcpy /* one instruction even in freestanding builds */
#else
#define TW_COPY memcpy
#endif

static inline uint32_t tw_word(const void *at)
{
    uint32_t word;
    TW_COPY(&word, at, sizeof word);
    return word;
}

static inline void tw_put_word(void *at, uint32_t word) { TW_COPY(at, &word, sizeof word); }

#endif
