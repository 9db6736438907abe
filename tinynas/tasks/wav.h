/* wav.h - the head of a wav file: where its samples begin, and whether they are those that a network was trained with. */
#ifndef WAV_H
#define WAV_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WAV_NO_WAV = -1, WAV_OTHER = -2, WAV_MOST_CHUNKS = 64 };

/* Bring up to `count` bytes of the file; return how many, 0 at its end, below 0 for an error. */
typedef int32_t (*wav_reader)(void *user, void *destination, int32_t count);

/* Read up to the first sample. Return how many bytes of samples the file says that it has; WAV_NO_WAV for a file that is no
   wav file; WAV_OTHER where samples are not 16 bits, one channel, `rate` a second. */
int64_t wav_begin(wav_reader read, void *user, uint32_t rate);

/* Bring up to `count` bytes, fewer only at the end of the file; return how many. */
int32_t wav_read(wav_reader read, void *user, void *destination, int32_t count);

#ifdef __cplusplus
}
#endif

#endif
