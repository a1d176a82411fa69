/* PTX, as the assembler takes it, played on a CPU: what tests/offline/played runs kernels with. ptx_text.c reads a
 * text, ptx_lane.c computes, ptx_warp.c runs a warp, ptx_unit.c has what warps do with each other and aside
 * (barriers, copies, products), ptx_grid.c lets them take turns. What an instruction means is by NVIDIA's manual.
 * One that is not known ends the program by its name.
 *
 * Warps go on at random and for random lengths; a copy arrives, and a product reads its registers and local memory,
 * at a random time between its issue and the instruction that waits for it. So a place that is filled too early, or
 * a register that is written under a product, shows. */
#ifndef CLATTN_TESTS_PTX_H
#define CLATTN_TESTS_PTX_H

#include <stddef.h>
#include <stdint.h>

#define PTX_LANES 32
#define PTX_OPERANDS_MOST 8
#define PTX_LIST_MOST 72
#define PTX_WARPS_MOST 32

enum ptx_kind { PTX_NONE, PTX_REGISTER, PTX_NUMBER, PTX_LABEL, PTX_ADDRESS, PTX_LIST };

struct ptx_operand {
    enum ptx_kind kind;
    int reg;         /* PTX_REGISTER; of an address its base, or -1 */
    uint64_t number; /* PTX_NUMBER; PTX_LABEL: which instruction; of an address what is added */
    int list[PTX_LIST_MOST], count;
};

/* "setp.lt.s32" by its words; operands as they are written. */
struct ptx_instruction {
    char words[10][24];
    int n_words, guard, guard_is_not; /* guard: a register, or -1 */
    int op, type, is_decoded;         /* ptx_lane.h's */
    int line;
    struct ptx_operand *operand;
    int n_operands, scope;
};

struct ptx_symbol {
    char name[96];
    uint64_t at; /* in the space of its kind */
};

struct ptx_text {
    char *text;
    struct ptx_instruction *code;
    int n_code, n_registers, n_symbols, shared_bytes, local_bytes, n_params;
    struct ptx_symbol symbols[256];
    char (*names)[32];
    unsigned char *constants;
    int param_at[64], param_bytes[64];
};

/* Special registers, by their numbers from 0 on: x, y and z of each. */
enum {
    PTX_TID,
    PTX_CTAID = PTX_TID + 3,
    PTX_NTID = PTX_CTAID + 3,
    PTX_NCTAID = PTX_NTID + 3,
    PTX_SPECIALS = PTX_NCTAID + 3
};

/* Addresses of the spaces that are not the host's memory. */
#define PTX_LOCAL_AT ((uint64_t)1 << 60)

/* Reads `entry` of a text, which stays in memory with it. */
struct ptx_text *ptx_read(const char *text, const char *entry);
void ptx_free(struct ptx_text *text);

/* Runs the groups of a grid, of so many items each, one after the other. `params`: the bytes of the kernel's
 * arguments, where the text has them (param_at). */
void ptx_run(const struct ptx_text *text, const unsigned char *params, const size_t groups[3], const size_t items[3],
             unsigned seed);

/* Whether the host has such memory for kernels; the player's answer. */
int ptx_memory_is_there(uint64_t at, size_t bytes);

/* Ends the program. */
void ptx_fail(const struct ptx_instruction *at, const char *what);

/* ---- between the files --------------------------------------------------------------------------- */

struct ptx_group;

struct ptx_product {
    const struct ptx_instruction *at;
    uint64_t descriptor;
    int adds, group; /* committed in group; 0: not yet */
};

struct ptx_warp {
    struct ptx_group *group;
    int number, is_done;
    int pc[PTX_LANES];
    uint32_t ended, held; /* lanes */
    uint64_t (*r)[PTX_LANES];
    unsigned char *local; /* of each lane */
    struct ptx_product products[64];
    int n_products, groups_committed, waits_at; /* waits_at: a barrier, or -1 */
};

struct ptx_copy { /* or an arrival behind the copies of its lane */
    int warp, lane, is_arrival;
    const unsigned char *from;
    uint32_t to;
};

struct ptx_barrier {
    uint32_t at, count, pending, phase;
};

struct ptx_group {
    const struct ptx_text *text;
    const unsigned char *params;
    uint64_t special[PTX_SPECIALS];
    unsigned char *shared;
    struct ptx_warp warps[PTX_WARPS_MOST];
    int n_warps;
    struct ptx_copy *copies;
    int n_copies, copies_room;
    struct ptx_barrier barriers[32];
    int n_barriers;
    uint32_t met[16]; /* warps at each numbered barrier */
    int some[16];     /* of their items says so */
    long tries;       /* to find arrivals complete, since the last arrival */
    unsigned random;
};

unsigned ptx_random(struct ptx_group *group, unsigned below);

/* Runs a warp for at most `most` instructions; how many it did. */
int ptx_warp_go(struct ptx_warp *warp, int most);

/* What is asynchronous. 1: it was one of these instructions, and is done; 2: the warp waits there; 0: it is none. */
int ptx_unit_step(struct ptx_warp *warp, const struct ptx_instruction *at, uint32_t lanes);
void ptx_land(struct ptx_group *group, int most);
void ptx_products_some(struct ptx_warp *warp);

uint64_t ptx_value(const struct ptx_warp *warp, const struct ptx_operand *operand, int lane);
uint64_t ptx_address(const struct ptx_warp *warp, const struct ptx_operand *operand, int lane);
int ptx_is(const struct ptx_instruction *at, int word, const char *text);
int ptx_has(const struct ptx_instruction *at, const char *text);

#endif
