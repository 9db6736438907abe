/* tw_detection_postprocess_s8.c - int8 boxes and scores of an SSD to a list of detections in floats, portable C.
 *
 * Scores are compared as integers. Only boxes that may be detections are decoded, as TFLite does it: centres and sizes in
 * double, edges and overlaps in float, each product and each sum rounded by itself.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#include "tw_detection_postprocess.h"

#define SCORES 256

/* The edges of an anchor's box. */
static void decode(const tw_detection *p, const int8_t *boxes, int32_t anchor, float *edges)
{
    const int8_t *encoded = boxes + anchor * p->coordinates;
    const float *at = p->at + 4 * anchor;
    for (int32_t axis = 0; axis < 2; ++axis) {
        const double size = (double)at[2 + axis];
        const float real = p->box_scale * (float)(encoded[axis] - p->box_zero);
        const double offset = (double)real / (double)p->centre_scale[axis] * size;
        const float centre = (float)(offset + (double)at[axis]);
        const float half = (float)(p->half_size[axis][encoded[2 + axis] + 128] * size);
        edges[axis] = centre - half;
        edges[2 + axis] = centre + half;
    }
}

static float side(float begin, float end) { return end > begin ? end - begin : 0.0f; }

/* Whether two boxes overlap by more than the limit; an empty one overlaps none: 0 / 0 exceeds no limit. */
static int overlap(const tw_detection *p, const float *a, const float *b)
{
    const float area_a = (a[2] - a[0]) * (a[3] - a[1]), area_b = (b[2] - b[0]) * (b[3] - b[1]);
    const float rows = side(a[0] > b[0] ? a[0] : b[0], a[2] < b[2] ? a[2] : b[2]);
    const float columns = side(a[1] > b[1] ? a[1] : b[1], a[3] < b[3] ? a[3] : b[3]);
    const float shared = rows * columns, both = area_a + area_b;
    return shared / (both - shared) > p->overlap;
}

/* Lists in order the anchors whose score is high enough, by falling score, of equal ones the first. Their scores are `step`
 * apart. Returns how many there are. */
static int32_t sort(const tw_detection *p, const int8_t *scores, int32_t step, uint16_t *begins, uint16_t *order)
{
    for (int32_t i = 0; i <= SCORES; ++i) {
        begins[i] = 0;
    }
    for (int32_t anchor = 0; anchor < p->anchors; ++anchor) {
        begins[SCORES / 2 - scores[anchor * step]]++; /* one place further, so that begins[i] becomes the first place of i */
    }
    for (int32_t i = 1; i <= SCORES; ++i) {
        begins[i] = (uint16_t)(begins[i] + begins[i - 1]);
    }
    const int32_t count = begins[SCORES / 2 - p->least];
    for (int32_t anchor = 0; anchor < p->anchors; ++anchor) {
        const int32_t score = scores[anchor * step];
        if (score >= p->least) {
            order[begins[SCORES / 2 - 1 - score]++] = (uint16_t)anchor;
        }
    }
    return count;
}

/* Keeps of `count` anchors in `order` those whose box overlaps no better one, at most `most`. Writes their boxes to kept and
 * returns how many there are. */
static int32_t suppress(const tw_detection *p, const int8_t *boxes, uint16_t *order, int32_t count, int32_t most, float *kept)
{
    int32_t found = 0;
    for (int32_t i = 0; i < count && found < most; ++i) {
        float *box = kept + 4 * found;
        int32_t better = 0;
        decode(p, boxes, order[i], box);
        while (better < found && !overlap(p, kept + 4 * better, box)) {
            ++better;
        }
        if (better == found) {
            order[found++] = order[i];
        }
    }
    return found;
}

/* Puts a detection behind those that are as good or better; the last one goes if there is no room. Returns how many there are. */
static int32_t insert(const tw_detection *p, tw_found *found, int32_t count, tw_found one)
{
    if (count == p->most && found[count - 1].score >= one.score) {
        return count;
    }
    int32_t place = count < p->most ? count : count - 1;
    count = place + 1;
    for (; place > 0 && found[place - 1].score < one.score; --place) {
        found[place] = found[place - 1];
    }
    found[place] = one;
    return count;
}

/* The class with the highest score of an anchor, the first of equal ones. */
static int32_t best_class(const tw_detection *p, const int8_t *scores, int32_t anchor)
{
    const int8_t *score = scores + anchor * p->columns + p->first;
    int32_t best = 0;
    for (int32_t i = 1; i < p->classes; ++i) {
        if (score[i] > score[best]) {
            best = i;
        }
    }
    return best;
}

void tw_detection_postprocess_s8(const tw_detection *p, const void *boxes, const void *scores, void *out_boxes, void *out_classes,
                                 void *out_scores, void *out_count, void *scratch)
{
    const int8_t *encoded = (const int8_t *)boxes, *all = (const int8_t *)scores + p->first;
    float *edges = (float *)out_boxes, *labels = (float *)out_classes, *reals = (float *)out_scores;
    tw_found *found = (tw_found *)scratch;
    uint16_t *order = (uint16_t *)(found + p->most), *begins = order + p->anchors;
    int8_t *best = (int8_t *)(begins + SCORES + 1);
    int32_t count = 0;
    if (!p->most_of_class) {
        for (int32_t anchor = 0; anchor < p->anchors; ++anchor) {
            best[anchor] = all[anchor * p->columns + best_class(p, (const int8_t *)scores, anchor)];
        }
    }
    const int32_t rounds = p->most_of_class ? p->classes : 1;
    for (int32_t label = 0; label < rounds; ++label) {
        const int8_t *from = p->most_of_class ? all + label : best;
        const int32_t step = p->most_of_class ? p->columns : 1, most = p->most_of_class ? p->most_of_class : p->most;
        const int32_t selected = suppress(p, encoded, order, sort(p, from, step, begins, order), most, edges);
        for (int32_t i = 0; i < selected; ++i) {
            const int32_t anchor = order[i], own = p->most_of_class ? label : best_class(p, (const int8_t *)scores, anchor);
            const tw_found one = {(uint16_t)anchor, (uint16_t)own, from[anchor * step]};
            count = insert(p, found, count, one);
        }
    }
    for (int32_t i = 0; i < p->most; ++i) {
        if (i < count) {
            decode(p, encoded, found[i].anchor, edges + 4 * i);
        } else {
            edges[4 * i] = edges[4 * i + 1] = edges[4 * i + 2] = edges[4 * i + 3] = 0.0f;
        }
        labels[i] = i < count ? (float)found[i].label : 0.0f;
        reals[i] = i < count ? p->score_scale * (float)(found[i].score - p->score_zero) : 0.0f;
    }
    *(float *)out_count = (float)count;
}
