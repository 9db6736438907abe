/* main.c - listens: a wav file comes in as it is read; for every few frames of it the class of what was last heard goes out.
 *
 * On a computer the file is the standard input. As firmware it is the one that QEMU is told, see README.md.
 */
#include <stddef.h>
#include <stdint.h>

@{includes}
#include "log_mel_ring.h"
#include "smoothing.h"
#include "wav.h"

@{host}
enum {
    FRAMES = @{NAME}_INPUT_0_DIM_1,
    CLASSES = @{NAME}_OUTPUT_0_ELEMENTS,
    WORDS = @{words},         /* classes that may be heard, the first ones */
    EVERY = @{every},         /* frames from one inference to the next */
    STEPS = @{steps},         /* inferences whose mean decides */
    THRESHOLD = @{threshold}, /* of the mean score */
    PAUSE = @{pause},         /* inferences without a word after one */
    AT_ONCE = 64              /* samples */
};

#if @{NAME}_INPUT_0_DIM_1 * LOG_MEL_FEATURES != @{NAME}_INPUT_0_ELEMENTS
#error "these are not the features that the network takes"
#endif

@{arena}static int8_t features[FRAMES * LOG_MEL_FEATURES], last[STEPS * WORDS];
static int32_t sums[WORDS];
static log_mel_ring ring;
static smoothing heard;

static int32_t read_file(void *user, void *destination, int32_t count)
{
    (void)user;
    return firmware_read(destination, count);
}

/* A frame has ended: run the network on the last ones, and say what it heard. */
static int inference(int32_t frame)
{
@{feed}
    if (@{name}_invoke(&@{memory}, @{io}) != 0) {
        print("the network failed\n");
        return 1;
    }
    const int8_t *const scores = @{name}_output(&@{memory}, 0);
    int32_t best = 0;
    for (int32_t i = 1; i < CLASSES; ++i) {
        best = scores[i] > scores[best] ? i : best;
    }
    say("frame ", frame);
    say(": class ", best);
    say(", score ", scores[best]);
    const int32_t word = smoothing_step(&heard, scores, THRESHOLD, PAUSE);
    if (word >= 0) {
        say(", heard ", word);
    }
    print("\n");
    return 0;
}

int main(void)
{
    static int16_t samples[AT_ONCE];
    int64_t rest = wav_begin(read_file, NULL, LOG_MEL_RATE);
    if (rest < 0) {
        print(rest == WAV_OTHER ? "its samples are not of 16 bits, one channel, and the network's rate\n" : "it is no wav file\n");
        return 2;
    }
    if (@{name}_init(&@{memory}) != 0) {
        print("@{name}_init failed\n");
        return 1;
    }
    log_mel_ring_begin(&ring, features, FRAMES);
    smoothing_begin(&heard, last, sums, WORDS, STEPS);
    for (int32_t frame = 0; rest >= (int64_t)sizeof *samples;) {
        const int32_t wanted = rest < (int64_t)sizeof samples ? (int32_t)rest : (int32_t)sizeof samples;
        const int32_t bytes = wav_read(read_file, NULL, samples, wanted), count = bytes / (int32_t)sizeof *samples;
        for (int32_t taken = 0; taken < count;) {
            int32_t is_new;
            taken += log_mel_ring_push(&ring, samples + taken, count - taken, &is_new);
            if (is_new && ++frame % EVERY == 0 && inference(frame) != 0) {
                return 1;
            }
        }
        rest = bytes < wanted ? 0 : rest - bytes;
    }
    say("stack ", (int32_t)firmware_stack());
    print("\n");
    return 0;
}
