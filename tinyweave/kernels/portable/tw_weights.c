/* tw_weights.c - see tw_weights.h. A file begins with 16 words: magic, format, bytes, CRC-32 of all bytes from word 4 on, the hash
 * of the C that it belongs to (4 words), and the SHA-256 of all bytes behind these words, which is not read here. */
#include "tw_weights.h"

enum { TW_WEIGHTS_MAGIC = 0x46575754, TW_WEIGHTS_FORMAT = 1 }; /* "TWWF" if the core is little-endian, as the file is */

static int tw_weights_head(const uint32_t word[8], size_t bytes, const uint32_t plan[4])
{
    if (word[0] != TW_WEIGHTS_MAGIC || word[1] != TW_WEIGHTS_FORMAT) {
        return -3;
    }
    if (word[2] != bytes || word[4] != plan[0] || word[5] != plan[1] || word[6] != plan[2] || word[7] != plan[3]) {
        return -4;
    }
    return 0;
}

static uint32_t tw_weights_crc(uint32_t crc, const void *data, size_t bytes)
{
    /* of four bits at a time: 64 bytes of table, and a third of the instructions that single bits would take */
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    const uint8_t *const byte = (const uint8_t *)data;
    for (size_t i = 0; i < bytes; ++i) {
        crc ^= byte[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return crc;
}

int tw_weights_check(const void *file, size_t bytes, const uint32_t plan[4])
{
    const uint32_t *const word = (const uint32_t *)file;
    const int error = tw_weights_head(word, bytes, plan);
    return error != 0 || word[3] == ~tw_weights_crc(0xffffffff, word + 4, bytes - 16) ? error : -5;
}

int tw_weights_check_by_read(
    tw_weights_read *read, void *context, void *buffer, uint32_t room, uint32_t bytes, const uint32_t plan[4])
{
    uint32_t word[8];
    int error = read(context, 0, word, sizeof word);
    if (error == 0) {
        error = tw_weights_head(word, bytes, plan);
    }
    uint32_t crc = tw_weights_crc(0xffffffff, word + 4, 16);
    for (uint32_t at = sizeof word; at < bytes && error == 0; at += room) {
        const uint32_t count = bytes - at < room ? bytes - at : room;
        error = read(context, at, buffer, count);
        crc = tw_weights_crc(crc, buffer, count);
    }
    return error != 0 || word[3] == ~crc ? error : -5;
}
