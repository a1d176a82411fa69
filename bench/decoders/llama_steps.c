// Steps of a model by llama.cpp, timed: what bench/decoders/model runs beside clattn_steps.c, which tells the commands.
// usage: llama_steps MODEL.gguf TYPE KEYS SHORT_KEYS THREADS     TYPE: f32, f16 or q8_0
// The times of `attention` are those of the step's FLASH_ATTN_EXT nodes, computed node by node for them alone.
#define _POSIX_C_SOURCE 200809L
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "llama_steps: %s\n", what);
    exit(1);
}

static void be_silent(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

// Asked before a node whether the graph is to stop behind it, and told when it did.
struct watch {
    int on;
    double begun_ms, attention_ms;
};

static bool watch_node(struct ggml_tensor *node, bool ask, void *user)
{
    struct watch *watch = user;
    if (ask && watch->on)
        watch->begun_ms = now_ms();
    else if (!ask && node->op == GGML_OP_FLASH_ATTN_EXT)
        watch->attention_ms += now_ms() - watch->begun_ms;
    return ask ? watch->on != 0 : true;
}

static llama_token token_at(long position, int vocabulary)
{
    return (llama_token)((unsigned long)(position * 7919 + 17) % (unsigned long)vocabulary);
}

static struct llama_context *context_of(struct llama_model *model, enum ggml_type type, long keys, int threads,
                                        struct watch *watch)
{
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)keys;
    params.n_batch = params.n_ubatch = 512;
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = params.type_v = type;
    params.cb_eval = watch_node;
    params.cb_eval_user_data = watch;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context)
        fail("no context");
    return context;
}

// Rows of positions first .. first + count - 1, of one sequence; what is behind them goes.
static void compute(struct llama_context *context, int vocabulary, long first, long count)
{
    llama_token tokens[512];
    llama_memory_seq_rm(llama_get_memory(context), 0, (llama_pos)first, -1);
    for (long rows; count > 0; first += rows, count -= rows) {
        rows = count < 512 ? count : 512;
        for (long i = 0; i < rows; i++)
            tokens[i] = token_at(first + i, vocabulary);
        if (llama_decode(context, llama_batch_get_one(tokens, (int32_t)rows)) != 0)
            fail("llama_decode failed");
    }
    llama_synchronize(context);
}

int main(int argc, char **argv)
{
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0 };
    int chosen = 0;
    if (argc != 6)
        fail("usage: llama_steps MODEL.gguf TYPE KEYS SHORT_KEYS THREADS");
    while (chosen < 3 && strcmp(argv[2], ggml_type_name(types[chosen])) != 0)
        chosen++;
    if (chosen == 3)
        fail("type: f32, f16 or q8_0");
    long keys[2] = { atol(argv[3]), atol(argv[4]) };
    llama_log_set(be_silent, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model)
        fail("no model");
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct watch watch = { 0 };
    struct llama_context *contexts[2];
    for (int i = 0; i < 2; i++) { // one each: a context attends to as many cells as it ever had tokens
        contexts[i] = context_of(model, types[chosen], keys[i], atoi(argv[5]), &watch);
        compute(contexts[i], vocabulary, 0, keys[i] - 1);
    }
    puts("ready");
    fflush(stdout);
    char what[16];
    for (long of, times; scanf("%15s %ld %ld", what, &of, &times) == 3;) {
        struct llama_context *context = contexts[of != keys[0]];
        watch.on = strcmp(what, "attention") == 0;
        compute(context, vocabulary, of - 1, 1);
        for (long i = 0; i < times; i++) {
            double start = now_ms();
            watch.attention_ms = 0;
            compute(context, vocabulary, of - 1, 1);
            printf("%.4f ", watch.on ? watch.attention_ms : now_ms() - start);
        }
        puts("");
        fflush(stdout);
    }
    for (int i = 0; i < 2; i++)
        llama_free(contexts[i]);
    llama_model_free(model);
    return 0;
}
