/* Steps of a model by the engine of examples/generate, timed: what bench/decoders/model runs beside llama_steps.c.
 * usage: clattn_steps MODEL.gguf TYPE KEYS     TYPE: of the cache, float32, float16, q8_0, ..
 * Computes KEYS - 1 tokens and says "ready". Then, for each line of standard input:
 *     step KEYS COUNT        so many steps, each the token with which there are KEYS keys: their times in ms
 *     attention KEYS COUNT   of such a step all layers' writing into the cache and attention alone, from the first
 *                            command's enqueueing to the last one's end */
#define _POSIX_C_SOURCE 200809L
#include "../../examples/generate/engine.h"

#include <string.h>
#include <time.h>

#include "../../examples/example.h"
#include "../../examples/generate/failure.h"

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static clattn_type type_named(const char *name)
{
    for (int type = CLATTN_FLOAT32; type <= CLATTN_INT4; ++type) {
        if (strcmp(name, clattn_type_name((clattn_type)type)) == 0) {
            return (clattn_type)type;
        }
    }
    fail("type %s: is none", name);
}

/* Tokens of chance, the same for llama_steps.c. */
static int32_t token_at(int64_t position, int64_t vocabulary)
{
    return (int32_t)((uint64_t)(position * 7919 + 17) % (uint64_t)vocabulary);
}

static void attend(struct engine *engine, int32_t position)
{
    const struct cache_rows place = { 0, 1, 1, position + 1, 0 };
    cache_place(&engine->cache, &place, &position);
    for (int64_t layer = 0; layer < engine->model.layers; ++layer) {
        cache_attend(&engine->cache, &place, layer, engine->query, engine->key, engine->value, engine->mixed);
    }
    must_cl(clFinish(clattn_context_queue(engine->context)));
}

static void turn(struct engine *engine, const char *what, int32_t position)
{
    const int32_t token = token_at(position, engine->model.vocabulary);
    if (strcmp(what, "step") == 0) {
        engine_step(engine, &token, &position);
    } else {
        attend(engine, position);
    }
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fail("usage: clattn_steps MODEL.gguf TYPE KEYS");
    }
    const int64_t keys = atoll(arguments[3]);
    struct gguf file;
    struct engine engine;
    struct cache_options options = { .kind = CACHE_CONTIGUOUS, .sequences = 1, .context = keys, .window = -1 };
    options.key_type = options.value_type = type_named(arguments[2]);
    gguf_open(&file, arguments[1]);
    engine_open(&engine, &file, &options);
    gguf_close(&file);
    int32_t *tokens = allocate((size_t)keys * sizeof(*tokens));
    for (int64_t i = 0; i < keys; ++i) {
        tokens[i] = token_at(i, engine.model.vocabulary);
    }
    engine_prompt(&engine, 0, 0, tokens, keys - 1, 0);
    puts("ready");
    fflush(stdout);
    char what[16];
    for (long of, times; scanf("%15s %ld %ld", what, &of, &times) == 3 && of > 0 && of <= keys;) {
        turn(&engine, what, (int32_t)of - 1); /* the first one finds the machine as the other program left it */
        for (long i = 0; i < times; ++i) {
            const double start = now_ms();
            turn(&engine, what, (int32_t)of - 1);
            printf("%.4f ", now_ms() - start);
        }
        puts("");
        fflush(stdout);
    }
    free(tokens);
    engine_close(&engine);
    return 0;
}
