/* The steps of the library, and the table of all. */
#define _XOPEN_SOURCE 700
#include "file_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/folder.h"
#include "clattn_costs.h"
#include "offline/null_driver.h"
#include "plan/wisdom_store.h"
#include "program/verdicts.h"

#define TARGET "gfx1030"

void step_must(int holds, const char *what)
{
    if (!holds) {
        printf("    without a fault: %s: %s\n", what, clattn_last_error());
        exit(3);
    }
}

/* ---- compiled programs -------------------------------------------------------------------------- */

static void drop_kernel(const struct null_kernel *kernel)
{
    (void)kernel;
}

/* What planning compiled, of the programs that it took; -1: refused. */
static int compiled_by_plan(clattn_type type, clattn_status *status)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_context_costs costs = CLATTN_CONTEXT_COSTS_INIT;
    clattn_context *context = NULL;
    clattn_plan *plan = NULL;
    problem.query_len = problem.key_len = 5;
    problem.head_dim = 8;
    problem.type = type;
    problem.strategy = "plain";
    null_driver_use(null_device_named(TARGET));
    null_driver_on_kernel(drop_kernel);
    *status = clattn_context_open(NULL, NULL, &context);
    if (*status == CLATTN_OK) {
        *status = clattn_plan_create(context, &problem, &plan);
    }
    if (*status == CLATTN_OK) {
        clattn_context_get_costs(context, &costs);
    }
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    return *status == CLATTN_OK ? (int)costs.compiled : -1;
}

static int run_plan(char *message)
{
    clattn_status status;
    const int compiled = compiled_by_plan(CLATTN_FLOAT32, &status);
    snprintf(message, MESSAGE_BYTES, "%s", compiled < 0 ? clattn_last_error() : "");
    if (null_driver_bad_binaries() > 0) {
        printf("    the driver was given a damaged binary\n");
        exit(3);
    }
    return compiled >= 0;
}

static void plan_once(void)
{
    char message[MESSAGE_BYTES];
    step_must(run_plan(message), "planning");
}

/* It is healed when the next context compiles nothing. */
static enum file_state look_at_programs(void)
{
    clattn_status status;
    return compiled_by_plan(CLATTN_FLOAT32, &status) == 0 ? STATE_NEW : STATE_OLD;
}

static void plan_another(void)
{
    clattn_status status;
    step_must(compiled_by_plan(CLATTN_FLOAT16, &status) == 1, "planning another");
}

/* What CLATTN_BINARY_DIR reads was a cache once. */
static void make_binary_dir(void)
{
    unsetenv("CLATTN_BINARY_DIR");
    setenv("CLATTN_CACHE_DIR", folder_path("programs"), 1);
    setenv("CLATTN_CACHE", "on", 1);
    plan_once();
}

/* ---- a folder that is full ---- */

#define PROGRAM_BYTES 2000

static int write_program(int number, size_t limit_bytes)
{
    struct program_key key = { { (unsigned char)number } };
    char binary[PROGRAM_BYTES];
    memset(binary, number, sizeof(binary));
    return program_file_write(folder_path("programs"), &key, binary, sizeof(binary), limit_bytes);
}

static void fill_folder(void)
{
    for (int i = 1; i <= 4; ++i) {
        step_must(write_program(i, 0), "filling the folder");
    }
}

static int run_trim(char *message)
{
    snprintf(message, MESSAGE_BYTES, "not written");
    return write_program(9, 3 * PROGRAM_BYTES);
}

static enum file_state look_at_folder(void)
{
    struct program_key key = { { 9 } };
    size_t bytes = 0;
    unsigned char *file = program_file_read(folder_path("programs"), PROGRAM_FOLDER_OWN, &key, &bytes);
    free(file);
    return file ? STATE_NEW : STATE_OLD;
}

/* ---- wisdom ------------------------------------------------------------------------------------- */

enum { ROWS_OLD = 32, ROWS_NEW = 64 };

static clattn_context *open_context(void)
{
    null_driver_on_kernel(drop_kernel);
    return null_context_open(TARGET);
}

static int store_wisdom(int rows)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    static struct wisdom wisdom;
    struct wisdom_fact fact = { .tile = { .rows = rows }, .table_ns = 2000, .tuned_ns = 1000 };
    clattn_context *context = open_context();
    problem.query_len = problem.key_len = problem.head_dim = problem.head_dim_v = 8;
    problem.key_type = problem.value_type = problem.type;
    fact.of = wisdom_class_of("fused simt", &problem);
    memset(&wisdom, 0, sizeof(wisdom));
    wisdom_learn(&wisdom, &fact);
    const int stored = wisdom_store(context, &wisdom);
    clattn_context_destroy(context);
    return stored;
}

static void store_old_wisdom(void)
{
    step_must(store_wisdom(ROWS_OLD), "storing wisdom");
}

static int run_store_wisdom(char *message)
{
    snprintf(message, MESSAGE_BYTES, "not written"); /* which `clattn tune` says, with the path */
    return store_wisdom(ROWS_NEW);
}

static enum file_state look_at_wisdom(void)
{
    static struct wisdom wisdom;
    clattn_context *context = open_context();
    memset(&wisdom, 0, sizeof(wisdom));
    wisdom_load(context, &wisdom);
    clattn_context_destroy(context);
    return wisdom.count != 1                       ? STATE_TORN
           : wisdom.facts[0].tile.rows == ROWS_OLD ? STATE_OLD
           : wisdom.facts[0].tile.rows == ROWS_NEW ? STATE_NEW
                                                   : STATE_TORN;
}

/* ---- verdicts ----------------------------------------------------------------------------------- */

static enum verdict_kind try_program(enum verdict_kind outcome)
{
    struct verdicts *verdicts = NULL;
    struct verdict_trial trial;
    struct program_key key;
    struct text why = TEXT_INIT;
    clattn_context *context = open_context();
    step_must(verdicts_open(&context->device, &verdicts) == CLATTN_OK && verdicts, "opening verdicts");
    verdicts_key(verdicts, (const char *const[]){ "a program" }, 1, &key);
    const enum verdict_kind kind = verdicts_begin(verdicts, &key, "to try a program", &trial, &why);
    if (kind == VERDICT_NONE) {
        verdicts_end(&trial, outcome, "as it should be");
    }
    text_free(&why);
    verdicts_close(verdicts);
    clattn_context_destroy(context);
    return kind;
}

static int run_good(char *message)
{
    snprintf(message, MESSAGE_BYTES, "a program that nothing is wrong with was refused");
    return try_program(VERDICT_GOOD) != VERDICT_BAD;
}

static int run_bad(char *message)
{
    snprintf(message, MESSAGE_BYTES, "a program that something is wrong with was found good");
    return try_program(VERDICT_BAD) != VERDICT_GOOD;
}

static int run_undecided(char *message)
{
    snprintf(message, MESSAGE_BYTES, "a program that nothing is known of was judged");
    return try_program(VERDICT_NONE) == VERDICT_NONE;
}

/* For those that look only once: whoever finds nothing begins a trial, and here ends it without an outcome. */
static enum file_state look_for_good(void)
{
    const enum verdict_kind kind = try_program(VERDICT_NONE);
    return kind == VERDICT_GOOD ? STATE_NEW : kind == VERDICT_NONE ? STATE_OLD : STATE_TORN;
}

static enum file_state look_for_bad(void)
{
    const enum verdict_kind kind = try_program(VERDICT_NONE);
    return kind == VERDICT_BAD ? STATE_NEW : kind == VERDICT_NONE ? STATE_OLD : STATE_TORN;
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* clang-format off */
#define PROGRAMS_IN(folder) { { "CLATTN_CACHE", "on" }, { "CLATTN_CACHE_DIR", folder } }
#define CHECKED { { "CLATTN_CACHE", "on" }, { "CLATTN_CACHE_DIR", "@programs" }, { "CLATTN_SELF_CHECK", "always" } }
const struct step steps[] = {
    { "programs, none there", PROGRAMS_IN("@some/deep/folder"), NULL, run_plan, look_at_programs, 1, 0, plan_another },
    { "programs, there", PROGRAMS_IN("@programs"), plan_once, run_plan, look_at_programs, 1, 0, plan_another },
    { "CLATTN_BINARY_DIR", { { "CLATTN_BINARY_DIR", "@programs" } }, make_binary_dir, run_plan, NULL, 0, 0, NULL },
    { "a full folder of programs", { { 0 } }, fill_folder, run_trim, look_at_folder, 0, 0, NULL },
    { "CLATTN_CL_DIR", { { "CLATTN_CL_DIR", "$cl" } }, NULL, run_plan, NULL, 0, 0, NULL },
    { "wisdom, written", { { "CLATTN_WISDOM_DIR", "@wisdom" } }, store_old_wisdom, run_store_wisdom, look_at_wisdom,
      0, 1, NULL },
    { "wisdom, read", { { "CLATTN_WISDOM_DIR", "@wisdom" } }, store_old_wisdom, run_plan, NULL, 1, 0, NULL },
    { "a good verdict", CHECKED, NULL, run_good, look_for_good, 1, 0, NULL },
    { "a bad verdict", CHECKED, NULL, run_bad, look_for_bad, 1, 0, NULL },
    { "no verdict", CHECKED, NULL, run_undecided, NULL, 1, 0, NULL },
    { "an output, none there", { { 0 } }, NULL, step_output, NULL, 0, 0, NULL },
    { "an output over an older one", { { 0 } }, step_write_old_output, step_output, step_look_at_output, 0, 1, NULL },
    { "an output behind a link", { { 0 } }, step_write_old_output_behind_link, step_output_behind_link,
      step_look_behind_link, 0, 1, NULL },
    { "a picture", { { 0 } }, step_write_old_picture, step_picture, step_look_at_picture, 0, 1, NULL },
    { ".npy", { { 0 } }, step_write_inputs, step_read_npy, NULL, 0, 0, NULL },
    { ".safetensors", { { 0 } }, step_write_inputs, step_read_safetensors, NULL, 0, 0, NULL },
    { "standard input", { { "TMPDIR", "@" } }, step_write_inputs, step_read_pipe, NULL, 0, 0, NULL },
};
/* clang-format on */
const size_t step_count = sizeof(steps) / sizeof(steps[0]);
