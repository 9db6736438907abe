/* tw_move.c - the same bytes elsewhere, portable C: memmove in pieces that memcpy may copy. */
#include "tw_movement.h"

#include <string.h>

void tw_move(const void *in, void *out, int32_t bytes)
{
    const uint8_t *from = (const uint8_t *)in;
    uint8_t *to = (uint8_t *)out;
    const uintptr_t down = (uintptr_t)from - (uintptr_t)to, up = (uintptr_t)to - (uintptr_t)from;
    const uintptr_t apart = (uintptr_t)to < (uintptr_t)from ? down : up;
    /* a piece no longer than the way that it goes does not overlap its own place */
    const int32_t piece = apart < (uintptr_t)bytes ? (int32_t)apart : bytes;
    int32_t left = bytes;
    if (piece == 0) {
        return;
    }
    if ((uintptr_t)to < (uintptr_t)from) {
        for (; left > piece; left -= piece, to += piece, from += piece) {
            memcpy(to, from, (size_t)piece);
        }
    } else {
        for (; left > piece; left -= piece) {
            memcpy(to + left - piece, from + left - piece, (size_t)piece);
        }
    }
    memcpy(to, from, (size_t)left);
}
