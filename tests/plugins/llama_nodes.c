/* A model in an unmodified llama.cpp, with clattn's backend and without: each node of attention against float64
 * attention of its inputs, the perplexity of a text, and greedy tokens behind it. The weights are float32, made of the
 * model's, so that an ulp of attention moves little.
 *
 *     usage: llama_nodes LIBRARY MODEL TEXT FOLDER   FOLDER: where the float32 model goes; removed by the caller
 */
#include "nodes.h"

#include "llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_TOKENS 300
#define GREEDY_TOKENS 200
#define PERPLEXITY_BOUND 5e-4 /* relative */

/* What a model makes of a text, with caches of a type. */
struct made {
    double perplexity;
    llama_token greedy[GREEDY_TOKENS];
    double worst; /* of the nodes */
    long nodes;
};

/* is_faithful: rounding does not multiply what an ulp changes, and perplexity and tokens are llama.cpp's own. */
static const struct {
    enum ggml_type type;
    int is_faithful;
} caches[] = { { GGML_TYPE_F32, 1 }, { GGML_TYPE_F16, 1 }, { GGML_TYPE_Q8_0, 0 }, { GGML_TYPE_Q4_0, 0 } };

#define CACHES (sizeof(caches) / sizeof(caches[0]))

static int passed, failed;

static void judge(const char *name, int is_good, const char *what, double value)
{
    printf("%s: %s: %s %.9g\n", is_good ? "passed" : "FAILED", name, what, value);
    passed += is_good;
    failed += !is_good;
}

static void end(const char *why)
{
    printf("FAILED: %s\n0 passed, 1 failed, 0 skipped\n", why);
    exit(1);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

/* llama.cpp asks which values it shall stop behind, then shows them. */
static bool watch(struct ggml_tensor *out, bool asks, void *user)
{
    struct made *made = user;
    if (asks || out->op != GGML_OP_FLASH_ATTN_EXT) {
        return !asks || out->op == GGML_OP_FLASH_ATTN_EXT;
    }
    const struct ggml_tensor *q = out->src[0], *k = out->src[1], *v = out->src[2], *mask = out->src[3];
    const struct node node = { .q = out->src[0], .k = out->src[1], .v = out->src[2], .mask = out->src[3], .out = out };
    const struct node_case of = { .head_dim = q->ne[0],
                                  .head_dim_v = v->ne[0],
                                  .heads = q->ne[2],
                                  .kv_heads = k->ne[2],
                                  .rows = q->ne[1],
                                  .keys = k->ne[1],
                                  .batch = q->ne[3],
                                  .mask_heads = mask ? mask->ne[2] : 1,
                                  .mask_batch = mask ? mask->ne[3] : 1 };
    made->worst = fmax(made->worst, node_error(&node, &of));
    ++made->nodes;
    return true;
}

/* ---- a model ----------------------------------------------------------------------------------- */

static void tell_errors(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

static struct llama_model *float32_model(const char *path, const char *folder)
{
    char copy[4096];
    struct llama_model_quantize_params parameters = llama_model_quantize_default_params();
    parameters.ftype = LLAMA_FTYPE_ALL_F32;
    parameters.allow_requantize = true;
    snprintf(copy, sizeof(copy), "%s/float32.gguf", folder);
    if (llama_model_quantize(path, copy, &parameters) != 0) {
        end("llama.cpp makes no float32 model");
    }
    return llama_model_load_from_file(copy, llama_model_default_params());
}

static int32_t read_tokens(const struct llama_model *model, const char *path, llama_token *tokens)
{
    static char text[8192];
    FILE *file = fopen(path, "r");
    const size_t length = file ? fread(text, 1, sizeof(text), file) : 0;
    llama_token all[sizeof(text)];
    const int32_t count =
        llama_tokenize(llama_model_get_vocab(model), text, (int32_t)length, all, (int32_t)sizeof(text), true, false);
    if (file) {
        fclose(file);
    }
    memcpy(tokens, all, TEXT_TOKENS * sizeof(*tokens));
    return count;
}

static llama_token most_likely(const float *logits, int32_t words)
{
    llama_token best = 0;
    for (llama_token n = 1; n < words; ++n) {
        best = logits[n] > logits[best] ? n : best;
    }
    return best;
}

static double nats_of(const float *logits, int32_t words, llama_token token)
{
    const double most = (double)logits[most_likely(logits, words)];
    double sum = 0;
    for (llama_token n = 0; n < words; ++n) {
        sum += exp((double)logits[n] - most);
    }
    return log(sum) + most - (double)logits[token];
}

/* The text at once, then token after token. */
static void generate(struct llama_context *context, int32_t words, const llama_token *text, struct made *made)
{
    struct llama_batch batch = llama_batch_init(TEXT_TOKENS, 0, 1);
    double nats = 0;
    batch.n_tokens = TEXT_TOKENS;
    for (int32_t n = 0; n < TEXT_TOKENS; ++n) {
        batch.token[n] = text[n];
        batch.pos[n] = n;
        batch.n_seq_id[n] = 1;
        batch.seq_id[n][0] = 0;
        batch.logits[n] = 1;
    }
    if (llama_decode(context, batch) != 0) {
        end("llama.cpp does not take the text");
    }
    for (int32_t n = 0; n + 1 < TEXT_TOKENS; ++n) {
        nats += nats_of(llama_get_logits_ith(context, n), words, text[n + 1]);
    }
    made->perplexity = exp(nats / (TEXT_TOKENS - 1));
    for (int32_t n = 0; n < GREEDY_TOKENS; ++n) {
        made->greedy[n] = most_likely(llama_get_logits_ith(context, -1), words);
        if (llama_decode(context, llama_batch_get_one(&made->greedy[n], 1)) != 0) {
            end("llama.cpp does not take a token");
        }
    }
    llama_batch_free(batch);
}

static void make(struct llama_model *model, const llama_token *text, enum ggml_type cache, int is_watched,
                 struct made *made)
{
    struct llama_context_params parameters = llama_context_default_params();
    parameters.n_ctx = 512;
    parameters.n_batch = parameters.n_ubatch = 512;
    parameters.n_threads = parameters.n_threads_batch = 2;
    parameters.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    parameters.type_k = parameters.type_v = cache;
    parameters.cb_eval = is_watched ? watch : NULL;
    parameters.cb_eval_user_data = made;
    struct llama_context *context = llama_init_from_model(model, parameters);
    if (!context) {
        end("llama.cpp makes no context");
    }
    memset(made, 0, sizeof(*made));
    generate(context, llama_vocab_n_tokens(llama_model_get_vocab(model)), text, made);
    llama_free(context);
}

/* ---- the judgement ----------------------------------------------------------------------------- */

static void compare(size_t n, const struct made *own, const struct made *made)
{
    const char *name = ggml_type_name(caches[n].type);
    const double ratio = made->perplexity / own->perplexity - 1;
    int equal = 0;
    while (equal < GREEDY_TOKENS && made->greedy[equal] == own->greedy[equal]) {
        ++equal;
    }
    printf("%s: perplexity %.6f, llama.cpp's own %.6f\n", name, made->perplexity, own->perplexity);
    judge(name, made->nodes > 0 && made->nodes % (1 + GREEDY_TOKENS) == 0, "nodes", (double)made->nodes);
    judge(name, made->worst <= ERROR_BOUND, "worst node", made->worst);
    judge(name, !caches[n].is_faithful || fabs(ratio) <= PERPLEXITY_BOUND, "perplexity beside llama.cpp's own", ratio);
    judge(name, !caches[n].is_faithful || equal == GREEDY_TOKENS, "greedy tokens that are equal", equal);
}

int main(int count, char **words)
{
    static struct made own[CACHES], made[CACHES];
    llama_token text[TEXT_TOKENS];
    if (count != 5) {
        end("usage: llama_nodes LIBRARY MODEL TEXT FOLDER");
    }
    llama_log_set(tell_errors, NULL);
    llama_backend_init();
    struct llama_model *model = float32_model(words[2], words[4]);
    if (!model || read_tokens(model, words[3], text) < TEXT_TOKENS) {
        end("no model, or a text that is too short");
    }
    for (size_t n = 0; n < CACHES; ++n) {
        make(model, text, caches[n].type, 0, &own[n]);
    }
    if (!ggml_backend_load(words[1])) {
        end("llama.cpp does not load the library");
    }
    for (size_t n = 0; n < CACHES; ++n) {
        make(model, text, caches[n].type, 1, &made[n]);
        compare(n, &own[n], &made[n]);
    }
    llama_model_free(model);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
