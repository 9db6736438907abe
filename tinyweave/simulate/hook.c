/* hook.c - counts the basic blocks that an emulated program executes, and the cache misses of its code and constants, for
 * unicorn_process.py. Unicorn calls it once per basic block.
 *
 * At the first execution of a block, `describe` fills in its instructions and how far it lowers the stack pointer. Later
 * executions cost a comparison and two additions. The stack pointer is read only if it may have been lowered.
 *
 * Layers are counted separately. If invoke calls a function whose first argument is the address of a layer's parameters, all
 * blocks until the return to invoke belong to that layer.
 */
#include <stdint.h>

typedef struct {
    uint64_t executions;
    uint64_t taken;        /* executions that were followed by a block elsewhere in memory */
    uint32_t bytes;        /* 0 = not described yet */
    uint32_t instructions; /* per execution */
    int32_t dip;           /* lowest stack pointer relative to the block's start, <= 0 */
    uint32_t flags;
} tw_block;

enum { LOWERS_STACK = 1, SETS_STACK = 2, IS_TRACE = 4 };
enum { CONDITIONS = 0x0600FC00 }; /* bits of the status register: conditions of the IT block in progress */

typedef struct {
    uint32_t line_bits, sets, ways;
    uint32_t *lines; /* per set the numbers of its lines plus 1, most recently used first; 0: none */
} tw_cache;

/* Counts of one layer. The first of them counts everything outside layers. */
typedef struct {
    uint32_t begin, end; /* addresses of the layer's parameters */
    tw_block *blocks;
    uint64_t code[2], data[2]; /* missed lines; those of them that follow the line that was fetched before */
} tw_layer;

typedef struct {
    uint32_t first, slots;            /* address of the code; one slot per two bytes */
    tw_layer *layers, *layer;         /* all layers; the layer that runs */
    uint32_t layer_count;
    uint32_t invoke, invoke_bytes, in_invoke; /* code of invoke, 0 bytes if no layers are counted; whether it runs */
    tw_block *last;                   /* the previous block, which ends at `end` */
    uint64_t end;
    uint64_t instructions, limit;
    uint32_t lowest_stack, look_at_stack;
    uint32_t unaligned; /* address of the first unaligned access, 0 for none */
    int stack_register, argument_register;
    int (*read_register)(void *engine, int which, void *value);
    int (*write_register)(void *engine, int which, const void *value);
    int status_register; /* of a core with IT blocks, else 0 */
    int (*stop)(void *engine);
    void (*describe)(uint64_t address, uint32_t bytes); /* fills in the block */
    void (*trace)(void);
    tw_cache *code, *data; /* NULL: not simulated */
    uint32_t fetched;      /* address of the byte after the line that was fetched last */
} tw_counter;

/* Access `bytes` bytes through a cache with least-recently-used replacement, and add to the counts of missed lines. */
static void use(tw_counter *counter, tw_cache *cache, uint32_t address, uint32_t bytes, uint64_t misses[2])
{
    const uint32_t end = (address + bytes - 1) >> cache->line_bits;
    for (uint32_t line = address >> cache->line_bits; line <= end; line++) {
        uint32_t *set = cache->lines + line % cache->sets * cache->ways;
        uint32_t way = 0;
        while (way < cache->ways - 1 && set[way] != line + 1) {
            way++;
        }
        if (set[way] != line + 1) {
            misses[0]++;
            misses[1] += counter->fetched == line << cache->line_bits;
            counter->fetched = (line + 1) << cache->line_bits;
        }
        for (; way > 0; way--) {
            set[way] = set[way - 1];
        }
        set[0] = line + 1;
    }
}

/* Return the layer whose kernel has just been called, or layer 0 for another function. */
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
        return; /* the return address of the call */
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
        use(counter, counter->code, (uint32_t)address, bytes, counter->layer->code);
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
    use(counter, counter->data, (uint32_t)address, (uint32_t)bytes, counter->layer->data);
    if (counter->status_register) { /* Unicorn leaves the IT state set if a load inside an IT block is hooked */
        uint32_t status = 0;
        counter->read_register(engine, counter->status_register, &status);
        if (status & CONDITIONS) {
            status &= ~(uint32_t)CONDITIONS;
            counter->write_register(engine, counter->status_register, &status);
        }
    }
}
