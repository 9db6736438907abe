/* The functions that the page calls. It runs one network, whose memories are arrays here. */
@{includes}

@{arena}
void tw_page_step(int32_t step) __attribute__((import_module("page"), import_name("step")));

/* Tell the page that a step is done. */
void @{name}_page_trace(int32_t step, int32_t layer)
{
    if (layer < 0) {
        tw_page_step(step);
    }
}

const void *tw_page_memories(void) { return &@{memory}; } /* the address and size of each */
int tw_page_init(void) { return @{name}_init(&@{memory}); }
void tw_page_reset(void) { @{name}_reset(&@{memory}); }
void *tw_page_input(int32_t index) { return @{name}_input(&@{memory}, index); }
const void *tw_page_output(int32_t index) { return @{name}_output(&@{memory}, index); }
int tw_page_invoke(void) { return @{name}_invoke(&@{memory}, NULL); }
