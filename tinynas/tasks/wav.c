/* wav.c - the head of a wav file, see wav.h. Chunks before the samples are passed over; nothing in a file is believed. */
#include "wav.h"

#include <string.h>

enum { CHUNK = 8, FORMAT = 16, PCM = 1 };

int32_t wav_read(wav_reader read, void *user, void *destination, int32_t count)
{
    uint8_t *to = (uint8_t *)destination;
    int32_t done = 0;
    while (done < count) {
        const int32_t got = read(user, to + done, count - done);
        if (got <= 0 || got > count - done) {
            break;
        }
        done += got;
    }
    return done;
}

static uint32_t word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Pass over bytes; return whether they were there. */
static int passed(wav_reader read, void *user, uint64_t count)
{
    uint8_t some[32];
    while (count > 0) {
        const int32_t part = count < sizeof some ? (int32_t)count : (int32_t)sizeof some;
        if (wav_read(read, user, some, part) != part) {
            return 0;
        }
        count -= (uint64_t)part;
    }
    return 1;
}

int64_t wav_begin(wav_reader read, void *user, uint32_t rate)
{
    uint8_t head[FORMAT];
    int is_told = 0;
    if (wav_read(read, user, head, 12) != 12 || memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) {
        return WAV_NO_WAV;
    }
    for (int32_t chunk = 0; chunk < WAV_MOST_CHUNKS; ++chunk) {
        if (wav_read(read, user, head, CHUNK) != CHUNK) {
            return WAV_NO_WAV;
        }
        uint32_t size = word(head + 4);
        if (memcmp(head, "data", 4) == 0) {
            return is_told ? (int64_t)size : WAV_NO_WAV;
        }
        if (memcmp(head, "fmt ", 4) == 0) {
            if (size < FORMAT || wav_read(read, user, head, FORMAT) != FORMAT) {
                return WAV_NO_WAV;
            }
            /* words: tag and channels, samples a second, bytes a second, bytes of a frame and bits */
            if (word(head) != (PCM | 1u << 16) || word(head + 4) != rate || word(head + 12) != (2u | 16u << 16)) {
                return WAV_OTHER;
            }
            is_told = 1;
            size -= FORMAT;
        }
        if (!passed(read, user, (uint64_t)size + (size & 1u))) {
            return WAV_NO_WAV;
        }
    }
    return WAV_NO_WAV;
}
