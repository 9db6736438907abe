/* tw_resizer.c - resizes a picture line by line: see tw_resizer.h. */
#include "tw_resizer.h"

#include <stddef.h>
#include <string.h>

enum { MOST = 4096 };

/* What an output position reads: `first` to `last`, all of weight `inner` but these two. */
typedef struct { int32_t first, last; uint32_t first_weight, inner_weight, last_weight; } taps;

static int32_t common_factor(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static tw_axis axis_of(int32_t in, int32_t out)
{
    const int32_t factor = common_factor(in, out);
    tw_axis axis;
    axis.in = in;
    axis.out = out;
    axis.step = in / factor;
    axis.units = out / factor;
    axis.total = out > in ? 2 * axis.units : axis.step;
    return axis;
}

static taps taps_of(const tw_axis *axis, int32_t index)
{
    taps found;
    if (axis->out > axis->in) { /* between two centres, in halves of an output pixel */
        int32_t at = (2 * index + 1) * axis->step - axis->units;
        const int32_t most = axis->total * (axis->in - 1);
        at = at < 0 ? 0 : at > most ? most : at;
        const int32_t part = at % axis->total;
        found.first = at / axis->total;
        found.last = found.first + (part != 0);
        found.first_weight = (uint32_t)(axis->total - part);
        found.inner_weight = 0;
        found.last_weight = (uint32_t)part;
    } else { /* an input pixel is `units` long, an output pixel `step` */
        const int32_t begin = index * axis->step, end = begin + axis->step;
        found.first = begin / axis->units;
        found.last = (end - 1) / axis->units;
        found.first_weight = (uint32_t)((found.first + 1) * axis->units - begin);
        found.inner_weight = (uint32_t)axis->units;
        found.last_weight = (uint32_t)(end - found.last * axis->units);
        if (found.first == found.last) {
            found.first_weight = (uint32_t)axis->step;
        }
    }
    return found;
}

int32_t tw_resizer_begin(tw_resizer *resizer, int32_t height, int32_t width, int32_t out_height, int32_t out_width,
                         int32_t channels, uint32_t *sums, uint8_t *line, uint8_t *other_line)
{
    const int32_t sizes[] = {height, width, out_height, out_width};
    for (int32_t i = 0; i < 4; ++i) {
        if (sizes[i] < 1 || sizes[i] > MOST) {
            return -1;
        }
    }
    resizer->rows = axis_of(height, out_height);
    resizer->columns = axis_of(width, out_width);
    if (resizer->rows.total > TW_RESIZER_MOST_WEIGHTS / resizer->columns.total) {
        return -1;
    }
    resizer->channels = channels;
    resizer->sums = sums;
    resizer->lines[0] = line;
    resizer->lines[1] = out_height > height ? other_line : line;
    resizer->next_line = 0;
    return 0;
}

/* Add one channel of a line, resized along its columns that grow, `weight` times to its sums. */
static void add_grown(const tw_axis *columns, const uint8_t *line, int32_t channels, uint32_t weight, uint32_t *sum)
{
    for (int32_t column = 0; column < columns->out; ++column, sum += channels) {
        const taps x = taps_of(columns, column);
        *sum += weight * (x.first_weight * line[x.first * channels] + x.last_weight * line[x.last * channels]);
    }
}

/* The same where columns shrink. left: how much of the pixel is not in an output yet. */
static void add_shrunk(const tw_axis *columns, const uint8_t *pixel, int32_t channels, uint32_t weight, uint32_t *sum)
{
    const uint32_t units = (uint32_t)columns->units, step = (uint32_t)columns->step;
    uint32_t left = units;
    for (int32_t column = 0; column < columns->out; ++column, sum += channels) {
        uint32_t whole = left * *pixel, inner = 0, rest = step - left;
        pixel += channels;
        for (; rest >= units; rest -= units, pixel += channels) {
            inner += *pixel;
        }
        whole += units * inner;
        left = units - rest;
        if (rest > 0) {
            whole += rest * *pixel;
        }
        *sum += weight * whole;
    }
}

/* The same of three channels at once. */
static void add_shrunk_colours(const tw_axis *columns, const uint8_t *pixel, uint32_t weight, uint32_t *sum)
{
    const uint32_t units = (uint32_t)columns->units, step = (uint32_t)columns->step;
    uint32_t left = units;
    for (int32_t column = 0; column < columns->out; ++column, sum += 3) {
        uint32_t red = left * pixel[0], green = left * pixel[1], blue = left * pixel[2], rest = step - left;
        uint32_t reds = 0, greens = 0, blues = 0;
        pixel += 3;
        for (; rest >= units; rest -= units, pixel += 3) {
            reds += pixel[0];
            greens += pixel[1];
            blues += pixel[2];
        }
        red += units * reds;
        green += units * greens;
        blue += units * blues;
        left = units - rest;
        if (rest > 0) {
            red += rest * pixel[0];
            green += rest * pixel[1];
            blue += rest * pixel[2];
        }
        sum[0] += weight * red;
        sum[1] += weight * green;
        sum[2] += weight * blue;
    }
}

/* The same where each output is the mean of `step` whole pixels. */
static void add_whole_colours(const tw_axis *columns, const uint8_t *pixel, uint32_t weight, uint32_t *sum)
{
    const uint32_t *const end = sum + 3 * columns->out;
    const int32_t step = 3 * columns->step;
    for (; sum < end; sum += 3) {
        const uint8_t *const next = pixel + step;
        uint32_t red = 0, green = 0, blue = 0;
        for (; pixel < next; pixel += 3) {
            red += pixel[0];
            green += pixel[1];
            blue += pixel[2];
        }
        sum[0] += weight * red;
        sum[1] += weight * green;
        sum[2] += weight * blue;
    }
}

/* Add a line, resized along its columns, `weight` times to the sums. */
static void add_line(const tw_resizer *resizer, const uint8_t *line, uint32_t weight)
{
    const tw_axis *columns = &resizer->columns;
    const int32_t channels = resizer->channels, grows = columns->out > columns->in;
    if (channels == 3 && !grows) {
        (columns->units == 1 ? add_whole_colours : add_shrunk_colours)(columns, line, weight, resizer->sums);
        return;
    }
    for (int32_t channel = 0; channel < channels; ++channel) {
        (grows ? add_grown : add_shrunk)(columns, line + channel, channels, weight, resizer->sums + channel);
    }
}

int32_t tw_resizer_row(tw_resizer *resizer, int32_t row, tw_resizer_read read, void *user, const int8_t *values,
                       int8_t *out)
{
    const taps y = taps_of(&resizer->rows, row);
    const int32_t count = resizer->columns.out * resizer->channels;
    const uint32_t total = (uint32_t)(resizer->rows.total * resizer->columns.total);
    memset(resizer->sums, 0, (size_t)count * sizeof *resizer->sums);
    for (int32_t line = y.first; line <= y.last; ++line) {
        uint8_t *pixels = resizer->lines[line % 2];
        while (resizer->next_line <= line) {
            const int32_t failed = read(user, resizer->next_line, resizer->lines[resizer->next_line % 2]);
            if (failed != 0) {
                return failed;
            }
            resizer->next_line++;
        }
        add_line(resizer, pixels, line == y.first ? y.first_weight : line == y.last ? y.last_weight : y.inner_weight);
    }
    for (int32_t i = 0; i < count; ++i) {
        out[i] = values[(resizer->sums[i] + total / 2) / total];
    }
    return 0;
}
