/* hook.c - counts what an emulated program executes, for emulator.py, at one call per basic block.
 *
 * A block that has not been seen before is described by `describe` (its instructions, how far it lowers the stack pointer);
 * from then on it costs two additions. The stack pointer is read only where it may have changed downwards.
 */
#include <stdint.h>

typedef struct {
    uint64_t executed;     /* instructions, over all its executions */
    uint32_t bytes;        /* 0 = not described yet */
    uint32_t instructions; /* per execution */
    int32_t dip;           /* the lowest stack pointer in it, relative to that at its start, <= 0 */
    uint32_t flags;
} tw_block;

enum { LOWERS_STACK = 1, SETS_STACK = 2, IS_TRACE = 4 };

typedef struct {
    uint32_t first, slots; /* code starts at `first`, a slot per two bytes */
    tw_block *blocks;
    uint64_t instructions, limit;
    uint32_t lowest_stack, look_at_stack;
    uint32_t unaligned; /* the address of the first access that is no multiple of its size, else 0 */
    int stack_register;
    int (*read_register)(void *engine, int which, void *value);
    int (*stop)(void *engine);
    void (*describe)(uint64_t address, uint32_t bytes); /* must fill the block */
    void (*trace)(void);
} tw_counter;

void tw_on_block(void *engine, uint64_t address, uint32_t bytes, tw_counter *counter)
{
    const uint32_t slot = ((uint32_t)address - counter->first) / 2;
    if (slot >= counter->slots) {
        return; /* where the program returns to */
    }
    tw_block *block = &counter->blocks[slot];
    if (block->bytes != bytes) {
        counter->describe(address, bytes);
    }
    block->executed += block->instructions;
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
