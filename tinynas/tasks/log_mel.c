/* Log-mel features, or MFCC, of one frame of sound, in integers: the same bytes as the Python that the network was trained with. */
#include "log_mel.h"

#define HALF (LOG_MEL_FRAME / 2)

typedef struct {
    int32_t real, imaginary;
} Complex;

static int32_t rounded_product(int32_t value, int32_t factor)
{
    return (int32_t)(((int64_t)value * factor + (1 << (LOG_MEL_TWIDDLE_BITS - 1))) >> LOG_MEL_TWIDDLE_BITS);
}

/* The value times exp(-2 pi i k / LOG_MEL_FRAME). */
static Complex turned(Complex value, int32_t k)
{
    int32_t cosine = tw_log_mel_cosines[k], sine = tw_log_mel_sines[k];
    Complex result;
    result.real = rounded_product(value.real, cosine) - rounded_product(value.imaginary, sine);
    result.imaginary = rounded_product(value.real, sine) + rounded_product(value.imaginary, cosine);
    return result;
}

/* A sample under the window, 2^LOG_MEL_GUARD_BITS times as large. */
static int32_t weighted(const int16_t *samples, int32_t n)
{
#if LOG_MEL_EMPHASIS_BITS /* less most of the sample before it */
    const int64_t value = samples[n + 1] * (1 << LOG_MEL_EMPHASIS_BITS) - samples[n] * ((1 << LOG_MEL_EMPHASIS_BITS) - 1);
#else
    const int32_t value = samples[n];
#endif
    return (int32_t)((value * tw_log_mel_window[n] + (1 << (LOG_MEL_WINDOW_BITS - 1))) >> LOG_MEL_WINDOW_BITS);
}

/* The samples under the window, the even ones real and the odd ones imaginary, in the order that the transform takes them in. */
static void load(const int16_t *samples, Complex *values)
{
    int32_t reversed = 0;
    for (int32_t n = 0; n < HALF; n++) {
        values[n].real = weighted(samples, 2 * reversed);
        values[n].imaginary = weighted(samples, 2 * reversed + 1);
        int32_t bit = HALF >> 1;
        for (; reversed & bit; bit >>= 1)
            reversed ^= bit;
        reversed |= bit;
    }
}

static void transform(Complex *values)
{
    for (int32_t size = 1; size < HALF; size *= 2) {
        for (int32_t k = 0; k < size; k++) {
            for (int32_t n = k; n < HALF; n += 2 * size) {
                Complex a = values[n], b = turned(values[n + size], k * (HALF / size));
                values[n].real = a.real + b.real;
                values[n].imaginary = a.imaginary + b.imaginary;
                values[n + size].real = a.real - b.real;
                values[n + size].imaginary = a.imaginary - b.imaginary;
            }
        }
    }
}

/* The square of twice the spectrum of the real samples at one frequency. */
static int64_t power(const Complex *values, int32_t k)
{
    Complex a = values[k], b = values[(HALF - k) % HALF], odd;
    odd.real = a.imaginary + b.imaginary;
    odd.imaginary = b.real - a.real;
    odd = turned(odd, k);
    int64_t real = (int64_t)a.real + b.real + odd.real, imaginary = (int64_t)a.imaginary - b.imaginary + odd.imaginary;
    return (real * real + imaginary * imaginary) >> (2 * LOG_MEL_GUARD_BITS);
}

/* LOG_MEL_DOUBLING times the logarithm to the base of 2, that of 0 as that of 1. */
static int32_t logarithm(int64_t value)
{
    uint64_t rest = value > 0 ? (uint64_t)value : 1;
    int32_t exponent = 0;
    for (uint64_t high = rest; high > 1; high >>= 1)
        exponent++;
    uint64_t mantissa = exponent >= LOG_MEL_LOG_BITS ? rest >> (exponent - LOG_MEL_LOG_BITS)
                                                     : rest << (LOG_MEL_LOG_BITS - exponent);
    return LOG_MEL_DOUBLING * exponent + tw_log_mel_logarithms[mantissa - (1u << LOG_MEL_LOG_BITS)];
}

static int8_t clipped(int32_t value)
{
    return (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
}

void log_mel(const int16_t *samples, int32_t *scratch, int8_t *features)
{
    Complex *values = (Complex *)scratch;
#if LOG_MEL_COEFFICIENTS
    int8_t bands[LOG_MEL_BANDS];
#else
    int8_t *const bands = features;
#endif
    load(samples, values);
    transform(values);
    const uint16_t *weight = tw_log_mel_weights;
    for (int32_t band = 0; band < LOG_MEL_BANDS; band++) {
        int64_t energy = 0;
        for (int32_t bin = 0; bin < tw_log_mel_bins[band]; bin++)
            energy += power(values, tw_log_mel_first_bins[band] + bin) * *weight++;
        const int32_t fractions = logarithm(energy) - LOG_MEL_QUIETEST - (128 << LOG_MEL_FRACTION_BITS);
        bands[band] = clipped(fractions / (1 << LOG_MEL_FRACTION_BITS)); /* toward 0 */
    }
#if LOG_MEL_COEFFICIENTS
    const int16_t *term = tw_log_mel_terms;
    for (int32_t k = 0; k < LOG_MEL_COEFFICIENTS; k++) {
        int32_t sum = 1 << (LOG_MEL_COSINE_BITS - 1);
        for (int32_t band = 0; band < LOG_MEL_BANDS; band++)
            sum += bands[band] * *term++;
        features[k] = clipped(sum >> LOG_MEL_COSINE_BITS);
    }
#endif
}
