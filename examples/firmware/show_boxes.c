/* Print the boxes of a head, which are written where the source was. */
static void show_boxes(const int8_t *head)
{
    const int32_t count = tw_boxes(head, THRESHOLD, shared.boxes);
    for (int32_t i = 0; i < count; ++i) {
        const tw_box *const box = &shared.boxes[i];
        say("class ", box->label);
        say(", score ", box->score);
        say(": rows ", box->top);
        say(" to ", box->bottom);
        say(", columns ", box->left);
        say(" to ", box->right);
        print("\n");
    }
    say("boxes ", count);
}
