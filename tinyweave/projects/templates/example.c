/* @{name}_example.c - reads a sample, runs the network, prints the result: the place to begin with your own input.
 *
 * Compiled with -DTW_PRINT_OUTPUTS it also prints every output byte.
 */
#include "@{name}_example.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "@{name}_profile.h"
@{includes}

typedef void (*printer)(const char *text);

@{print_integer}
static inline void print_thousandths(printer print, float value)
{
    const float scaled = value * 1000.0f;
    if (!(scaled > -2.0e9f && scaled < 2.0e9f)) {
        print(value < 0.0f ? "below -2000000" : "above 2000000");
        return;
    }
    const int32_t thousandths = (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
    const uint32_t rest = thousandths < 0 ? 0u - (uint32_t)thousandths : (uint32_t)thousandths;
    const char digits[] = {
        '.', (char)('0' + rest / 100 % 10), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10), '\0'};
    print(thousandths < 0 ? "-" : "");
    print_integer(print, (int32_t)(rest / 1000));
    print(digits);
}

/* Return 1, and say so, when an output is not what the reference computes. */
static int check(printer print, const char *model, int32_t sample, int32_t output, const void *have, const void *want,
                 size_t bytes)
{
#ifdef TW_PRINT_OUTPUTS
    print("tw-output ");
    print(model);
    print(" ");
    print_integer(print, sample);
    print(" ");
    print_integer(print, output);
    print(" ");
    for (size_t i = 0; i < bytes; ++i) {
        const uint8_t value = ((const uint8_t *)have)[i];
        const char digits[] = {"0123456789abcdef"[value >> 4], "0123456789abcdef"[value & 15], '\0'};
        print(digits);
    }
    print("\n");
#endif
    if (memcmp(have, want, bytes) == 0) {
        return 0;
    }
    print(model);
    print(" sample ");
    print_integer(print, sample);
    print(": output ");
    print_integer(print, output);
    print(" is not the reference's\n");
    return 1;
}

@{runs}
int @{name}_example(void (*print)(const char *text))
{
    int wrong = 0;
@{calls}
    print(wrong == 0 ? "every output is the reference's, byte for byte\n" : "outputs DIFFER from the reference's\n");
    return wrong;
}
