/* Classify images: floats from stdin, row by row, the channels of a pixel together. On a board, read your sensor instead. */
#include <stdio.h>

#include "net.h"

static uint8_t sram[NET_SRAM_BYTES] __attribute__((aligned(NET_ALIGN)));
static const net_memory memory = {.sram = {sram, sizeof sram}};
static float image[NET_INPUT_0_ELEMENTS];

int main(void)
{
    if (net_init(&memory) != 0) {
        return 1;
    }
    while (fread(image, sizeof image, 1, stdin) == 1) {
        if (net_write_input(&memory, 0, 0, image, NET_INPUT_0_ELEMENTS) != 0 || net_invoke(&memory, NULL) != 0) {
            return 1;
        }
        const int8_t *const scores = net_output(&memory, 0);
        int best = 0;
        for (int i = 1; i < NET_OUTPUT_0_ELEMENTS; i++) {
            best = scores[i] > scores[best] ? i : best;
        }
        printf("%d\n", best);
    }
    return 0;
}
