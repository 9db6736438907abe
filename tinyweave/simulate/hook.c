/* hook.c - counts what an emulated program executes, for unicorn_process.py, at one call per basic block, and what of its reads
 * of code and constants a cache would miss.
 *
 * A block that has not been seen before is described by `describe` (its instructions, how far it lowers the stack pointer);
 * from then on it costs a comparison and two additions. The stack pointer is read only where it may have changed downwards.
 *
 * What a layer takes is counted by itself: a kernel's first argument, where invoke calls it, is the address of the layer's
 * parameters, and until invoke goes on all blocks are that layer's.
 */
#include <stdint.h>

typedef struct {
    uint64_t executions;
    uint64_t taken;        /* how often another block followed than the one behind it */
    uint32_t bytes;        /* 0 = not described yet */
    uint32_t instructions; /* per execution */
    int32_t dip;           /* the lowest stack pointer in it, relative to that at its start, <= 0 */
    uint32_t flags;
} tw_block;

enum { LOWERS_STACK = 1, SETS_STACK = 2, IS_TRACE = 4 };
enum { CONDITIONS = 0x0600FC00 }; /* in the status register: those of the instructions that follow */

typedef struct {
    uint32_t line_bits, sets, ways;
    uint32_t *lines; /* per set its lines, the one used last first; of each its number, plus 1 */
} tw_cache;

/* A layer that is counted by itself, or, the first of them, all the rest. */
typedef struct {
    uint32_t begin, end; /* addresses of its parameters */
    tw_block *blocks;
    uint64_t code_misses, data_misses;
} tw_layer;

typedef struct {
    uint32_t first, slots; /* code starts at `first`, a slot per two bytes */
    tw_layer *layers, *layer; /* all, and the one that runs */
    uint32_t layer_count;
    uint32_t invoke, invoke_bytes, in_invoke; /* where the code of invoke is, 0 bytes for no layers; whether that runs */
    tw_block *last; /* the block that ran before this one, which ends at `end` */
    uint64_t end;
    uint64_t instructions, limit;
    uint32_t lowest_stack, look_at_stack;
    uint32_t unaligned; /* the address of the first access that is no multiple of its size, else 0 */
    int stack_register, argument_register;
    int (*read_register)(void *engine, int which, void *value);
    int (*write_register)(void *engine, int which, const void *value);
    int status_register; /* of a core that can make instructions depend on a condition, else 0 */
    int (*stop)(void *engine);
    void (*describe)(uint64_t address, uint32_t bytes); /* must fill the block */
    void (*trace)(void);
    tw_cache *code, *data; /* 0 = not looked at */
} tw_counter;

/* How many lines of these bytes the cache misses; it has them now. */
static uint64_t use(tw_cache *cache, uint32_t address, uint32_t bytes)
{
    uint64_t misses = 0;
    const uint32_t end = (address + bytes - 1) >> cache->line_bits;
    for (uint32_t line = address >> cache->line_bits; line <= end; line++) {
        uint32_t *set = cache->lines + line % cache->sets * cache->ways;
        uint32_t way = 0;
        while (way < cache->ways - 1 && set[way] != line + 1) {
            way++;
        }
        misses += set[way] != line + 1;
        for (; way > 0; way--) {
            set[way] = set[way - 1];
        }
        set[0] = line + 1;
    }
    return misses;
}

/* The layer whose kernel has just been called, or what is no layer. */
static tw_layer *called(void *engine, tw_counter *counter)
{
    uint32_t argument = 0;
    counter->read_register(engine, counter->argument_register, &argument);
    for (uint32_t i = 1; i < counter->layer_count; i++) {
        if (argument - counter->layers[i].begin < counter->layers[i].end - counter->layers[i].begin) {
            return &counter->layers[i];
        }
    }
    return counter->layers;
}

void tw_on_block(void *engine, uint64_t address, uint32_t bytes, tw_counter *counter)
{
    const uint32_t slot = ((uint32_t)address - counter->first) / 2;
    if (counter->last && address != counter->end) {
        counter->last->taken++;
    }
    counter->last = 0;
    if (slot >= counter->slots) {
        return; /* where the program returns to */
    }
    const uint32_t in_invoke = (uint32_t)address - counter->invoke < counter->invoke_bytes;
    if (in_invoke != counter->in_invoke) {
        counter->in_invoke = in_invoke;
        counter->layer = in_invoke ? counter->layers : called(engine, counter);
    }
    tw_block *block = &counter->layer->blocks[slot];
    if (block->bytes != bytes) {
        counter->describe(address, bytes);
    }
    block->executions++;
    if (counter->code) {
        counter->layer->code_misses += use(counter->code, (uint32_t)address, bytes);
    }
    counter->last = block;
    counter->end = address + bytes;
    counter->instructions += block->instructions;
    if (block->flags | counter->look_at_stack) {
        uint32_t stack = 0;
        counter->read_register(engine, counter->stack_register, &stack);
        stack += (uint32_t)block->dip;
        if (stack < counter->lowest_stack) {
            counter->lowest_stack = stack;
        }
        counter->look_at_stack = block->flags & SETS_STACK;
        if (block->flags & IS_TRACE) {
            counter->trace();
        }
    }
    if (counter->instructions > counter->limit) {
        counter->stop(engine);
    }
}

void tw_on_access(void *engine, int type, uint64_t address, int bytes, int64_t value, tw_counter *counter)
{
    (void)type;
    (void)value;
    if (address % (uint64_t)bytes != 0 && counter->unaligned == 0) {
        counter->unaligned = (uint32_t)address;
        counter->stop(engine);
    }
}

void tw_on_constant(void *engine, int type, uint64_t address, int bytes, int64_t value, tw_counter *counter)
{
    (void)type;
    (void)value;
    counter->layer->data_misses += use(counter->data, (uint32_t)address, (uint32_t)bytes);
    if (counter->status_register) { /* Unicorn forgets to end them where a load among them is looked at */
        uint32_t status = 0;
        counter->read_register(engine, counter->status_register, &status);
        if (status & CONDITIONS) {
            status &= ~(uint32_t)CONDITIONS;
            counter->write_register(engine, counter->status_register, &status);
        }
    }
}
