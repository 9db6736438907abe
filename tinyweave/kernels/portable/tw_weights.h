/* tw_weights.h - the check of a file of weights, before a model reads it. */
#ifndef TW_WEIGHTS_H
#define TW_WEIGHTS_H

#include <stddef.h>

#include "tw.h"

/* Return 0 if `file`, aligned to 4 bytes, is a file of `bytes` bytes for the C whose hash is `plan`, and undamaged. Return -3 if
 * it is no file of weights, or of another format, -4 if it is for other C, -5 if it is damaged. The check is a CRC-32. It finds
 * accidents, such as an interrupted download, but no intent: whoever changes the file can write its CRC-32, too. */
int tw_weights_check(const void *file, size_t bytes, const uint32_t plan[4]);

#endif
