/* Boxes out of a detector's head, in integers: the same bytes as the Python that its accuracy was measured with. */
#include "boxes.h"

#define TERMS 5 /* centre down and right, rows, columns, object */

static int32_t at_least(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t at_most(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The probability of an anchor's object and its most likely class; the first one of equals. */
static uint16_t score_of(const int8_t *terms, uint16_t *label)
{
    uint32_t score = tw_boxes_probability[terms[4] + 128];
    *label = 0;
#if BOXES_SCORES > 0
    for (uint16_t other = 1; other < BOXES_SCORES; other++) {
        if (terms[TERMS + other] > terms[TERMS + *label])
            *label = other;
    }
    score = (score * tw_boxes_probability[terms[TERMS + *label] + 128]) >> BOXES_PROBABILITY_BITS;
#endif
    return (uint16_t)score;
}

/* First and last edge along one axis. place: of the cell. centre, size: the head's values. */
static void edges(int32_t place, int32_t cells, int8_t centre, int8_t size, uint16_t anchor, int16_t *first, int16_t *last)
{
    int32_t step = BOXES_STRIDE << BOXES_UNIT_BITS, limit = cells * step;
    int32_t within = (step * tw_boxes_probability[centre + 128] + (1 << (BOXES_PROBABILITY_BITS - 1))) >> BOXES_PROBABILITY_BITS;
    int32_t side = (int32_t)((anchor * tw_boxes_growth[size + 128] + (1u << (BOXES_GROWTH_BITS - 1))) >> BOXES_GROWTH_BITS);
    int32_t begin = place * step + within - (side >> 1);
    *first = (int16_t)at_most(at_least(begin, 0), limit);
    *last = (int16_t)at_most(at_least(begin + side, 0), limit);
}

static int32_t area(const tw_box *box)
{
    return (box->bottom - box->top) * (box->right - box->left);
}

static int overlaps(const tw_box *a, const tw_box *b)
{
    int32_t rows = at_most(a->bottom, b->bottom) - at_least(a->top, b->top);
    int32_t columns = at_most(a->right, b->right) - at_least(a->left, b->left);
    if (rows <= 0 || columns <= 0)
        return 0;
    int64_t shared = rows * columns, whole = (int64_t)area(a) + area(b) - shared;
    return shared * (1 << BOXES_OVERLAP_BITS) > whole * BOXES_OVERLAP;
}

/* Put a box behind those that are as good or better; the last one goes where there is no room. Return how many there are. */
static int32_t inserted(tw_box *boxes, int32_t count, const tw_box *box)
{
    if (count == BOXES_MOST && boxes[count - 1].score >= box->score)
        return count;
    int32_t place = count < BOXES_MOST ? count : BOXES_MOST - 1;
    count = place + 1;
    for (; place > 0 && boxes[place - 1].score < box->score; place--)
        boxes[place] = boxes[place - 1];
    boxes[place] = *box;
    return count;
}

/* Take out the boxes that overlap a better one of their class. Return how many stay. */
static int32_t without_overlaps(tw_box *boxes, int32_t count)
{
    int32_t kept = 0;
    for (int32_t index = 0; index < count; index++) {
        int32_t better = 0;
        while (better < kept && (boxes[better].label != boxes[index].label || !overlaps(&boxes[better], &boxes[index])))
            better++;
        if (better == kept)
            boxes[kept++] = boxes[index];
    }
    return kept;
}

int32_t tw_boxes(const int8_t *head, uint16_t threshold, tw_box *boxes)
{
    int32_t count = 0;
    for (int32_t row = 0; row < BOXES_ROWS; row++) {
        for (int32_t column = 0; column < BOXES_COLUMNS; column++) {
            for (int32_t anchor = 0; anchor < BOXES_ANCHORS; anchor++, head += TERMS + BOXES_SCORES) {
                tw_box box;
                box.score = score_of(head, &box.label);
                if (box.score < threshold)
                    continue;
                edges(row, BOXES_ROWS, head[0], head[2], tw_boxes_anchors[2 * anchor], &box.top, &box.bottom);
                edges(column, BOXES_COLUMNS, head[1], head[3], tw_boxes_anchors[2 * anchor + 1], &box.left, &box.right);
                count = inserted(boxes, count, &box);
            }
        }
    }
    return without_overlaps(boxes, count);
}
