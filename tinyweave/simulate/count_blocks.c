/* count_blocks.c - a plugin of QEMU that counts the translation blocks which an emulated program executes, for qemu.py.
 *
 * QEMU calls `translated` when it translates a block, and `executed` each time the block runs. The counts are in a file that is
 * mapped into memory, so that qemu.py can read them while the board is stopped. Argument of the plugin: counts=PATH, a file of
 * sizeof(tw_counts) zero bytes.
 */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 1 << 16, SLOTS = 2 * MOST };

typedef struct {
    uint64_t address, bytes, instructions;
    uint64_t executions;
    uint64_t taken; /* executions that were followed by a block elsewhere in memory */
} tw_block;

typedef struct {
    uint64_t used; /* blocks in use; MOST + 1 if there were more blocks than fit */
    tw_block blocks[MOST];
} tw_counts;

/* The part of QEMU's plugin interface that is needed here; QEMU exports these functions. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void tw_on_translation(uint64_t id, struct qemu_plugin_tb *block);
typedef void tw_on_execution(unsigned cpu, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, tw_on_translation *function);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, tw_on_execution *function, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *instruction);
extern void *qemu_plugin_scoreboard_new(size_t) __attribute__((weak)); /* since version 2 of the interface */

int qemu_plugin_version = 1;

static tw_counts *counts;
static tw_block *last;
static uint32_t slots[SLOTS]; /* a hash table: index of a block plus 1; 0: empty */

/* QEMU reads the version after this function has run. From QEMU 9 on, it refuses version 1. */
__attribute__((constructor)) static void choose_version(void)
{
    if (qemu_plugin_scoreboard_new) {
        qemu_plugin_version = 2;
    }
}

static void executed(unsigned cpu, void *data)
{
    tw_block *block = data;
    (void)cpu;
    if (last && last->address + last->bytes != block->address) {
        last->taken++;
    }
    block->executions++;
    last = block;
}

/* Bytes of a Thumb instruction. QEMU's own count includes two bytes of the next instruction if that one crosses a page's end. */
static uint64_t bytes_of(const struct qemu_plugin_insn *instruction)
{
    const uint16_t *const code = qemu_plugin_insn_haddr(instruction);
    return code && *code >> 11 >= 0x1D ? 4 : 2;
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    const uint64_t address = qemu_plugin_tb_vaddr(tb), count = qemu_plugin_tb_n_insns(tb);
    const struct qemu_plugin_insn *end = qemu_plugin_tb_get_insn(tb, count - 1);
    uint32_t slot = (uint32_t)(address * 31 + count) % SLOTS;
    (void)id;
    for (; slots[slot]; slot = (slot + 1) % SLOTS) { /* the same block may be translated several times */
        const tw_block *known = &counts->blocks[slots[slot] - 1];
        if (known->address == address && known->instructions == count) {
            break;
        }
    }
    if (!slots[slot]) {
        if (counts->used >= MOST) {
            counts->used = MOST + 1;
            return;
        }
        slots[slot] = (uint32_t)++counts->used;
    }
    tw_block *block = &counts->blocks[slots[slot] - 1];
    block->address = address;
    block->bytes = qemu_plugin_insn_vaddr(end) + bytes_of(end) - address;
    block->instructions = count;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    static const char key[] = "counts=";
    (void)info;
    const int file = argc == 1 && !strncmp(argv[0], key, sizeof key - 1) ? open(argv[0] + sizeof key - 1, O_RDWR) : -1;
    counts = file < 0 ? MAP_FAILED : mmap(0, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
