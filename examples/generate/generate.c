/* A small inference engine for llama-architecture GGUF files: attention, rotary embedding and the cache of keys and
 * values by clattn; all else is here, a file each:
 *
 *     gguf       the file, every length in it checked        cache      plans and memory of keys and values
 *     tokeniser  text to tokens and back                      engine     the layers, tokens to logits
 *     words      where text is cut first                      kernels    matrix times rows, norms, gates
 *     model      its numbers, its weights on the device       options, show
 *
 * It is made to be read, and to be right: weights are float32, and the likeliest token is always taken. */
#include "engine.h"
#include "failure.h"
#include "options.h"
#include "show.h"
#include "tokeniser.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- prompts ---- */

static void read_numbers(const char *text, int64_t vocabulary, struct tokens *tokens)
{
    while (*text) {
        char *end = NULL;
        const long long token = strtoll(text, &end, 10);
        if (end == text || token < 0 || token >= vocabulary || (*end && !strchr(" ,\n", *end))) {
            fail("token \"%.20s\": must be a number from 0 to %lld", text, (long long)vocabulary - 1);
        }
        token_append(tokens, (int32_t)token);
        text = end + strspn(end, " ,\n");
    }
}

/* A turn as ChatML has it. Marks are tokens of their own; a user who writes one writes text. */
static void add_turn(const struct tokeniser *tokeniser, const char *role, const char *text, struct tokens *tokens)
{
    token_mark(tokeniser, "<|im_start|>", tokens);
    tokenise(tokeniser, role, strlen(role), tokens);
    tokenise(tokeniser, "\n", 1, tokens);
    if (text) {
        tokenise(tokeniser, text, strlen(text), tokens);
        token_mark(tokeniser, "<|im_end|>", tokens);
        tokenise(tokeniser, "\n", 1, tokens);
    }
}

static void read_prompt(const struct options *options, const struct tokeniser *tokeniser, int64_t vocabulary,
                        const char *prompt, struct tokens *tokens)
{
    if (options->numbers) {
        read_numbers(prompt, vocabulary, tokens);
    } else if (options->raw) {
        tokenise(tokeniser, prompt, strlen(prompt), tokens);
    } else {
        add_turn(tokeniser, "system", options->system, tokens);
        add_turn(tokeniser, "user", prompt, tokens);
        add_turn(tokeniser, "assistant", NULL, tokens);
    }
    if (!tokens->count) {
        fail("a prompt has no token");
    }
}

/* Tokens that all prompts begin with; each keeps one of its own, whose logits are wanted. */
static int64_t common_beginning(const struct tokens *prompts, int count)
{
    int64_t common = prompts[0].count - 1;
    for (int i = 1; i < count; ++i) {
        int64_t same = 0;
        while (same < common && same < prompts[i].count - 1 && prompts[i].at[same] == prompts[0].at[same]) {
            ++same;
        }
        common = same;
    }
    return count > 1 ? common : 0;
}

/* ---- generating ---- */

struct talk {
    const struct options *options;
    const struct tokeniser *tokeniser; /* with --numbers: NULL */
    struct tokens *sequences;          /* prompts, and what follows */
    int64_t *prompt_tokens;
    char *ended;
    int32_t end; /* the token that ends a turn */
};

static int32_t likeliest(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

static void take_token(struct talk *talk, int sequence, int32_t token)
{
    struct tokens *tokens = &talk->sequences[sequence];
    const struct options *options = talk->options;
    token_append(tokens, token);
    talk->ended[sequence] = token == talk->end || tokens->count == talk->prompt_tokens[sequence] + options->length;
    if (options->prompt_count == 1 && talk->tokeniser && !options->show && token != talk->end) {
        print_token(talk->tokeniser, token);
        fflush(stdout);
    }
}

/* A step for all sequences; those that ended compute their last token again, which changes nothing. */
static void step(struct engine *engine, struct talk *talk)
{
    const int count = talk->options->prompt_count;
    int32_t *tokens = allocate((size_t)count * sizeof(*tokens)), *positions = allocate((size_t)count * sizeof(*tokens));
    for (int i = 0; i < count; ++i) {
        const struct tokens *sequence = &talk->sequences[i];
        const int64_t last = sequence->count - (talk->ended[i] ? 2 : 1); /* of an ended one the last is not fed */
        tokens[i] = sequence->at[last];
        positions[i] = (int32_t)last;
    }
    const float *logits = engine_step(engine, tokens, positions);
    for (int i = 0; i < count; ++i) {
        if (!talk->ended[i]) {
            const int64_t vocabulary = engine->model.vocabulary;
            take_token(talk, i, likeliest(logits + i * vocabulary, vocabulary));
        }
    }
    free(tokens);
    free(positions);
}

static double now(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int going(const struct talk *talk)
{
    for (int i = 0; i < talk->options->prompt_count; ++i) {
        if (!talk->ended[i]) {
            return 1;
        }
    }
    return 0;
}

static void talk_all(struct engine *engine, struct talk *talk)
{
    const int count = talk->options->prompt_count;
    const int64_t shared = engine->cache.options.shared_rows;
    int64_t computed = 0, steps = 0;
    const double start = now();
    for (int i = 0; i < count; ++i) {
        const struct tokens *prompt = &talk->sequences[i];
        const int64_t from = i ? shared : 0; /* the first sequence computes what all begin with */
        const float *logits = engine_prompt(engine, i, from, prompt->at + from, prompt->count - from, 0);
        computed += prompt->count - from;
        take_token(talk, i, likeliest(logits, engine->model.vocabulary));
    }
    const double prompts_done = now();
    for (; going(talk); ++steps) {
        step(engine, talk);
    }
    fprintf(stderr,
            "\nprompts: %lld tokens in %.2f s, and %lld that sequences share; then %lld steps of %d, %.1f ms each\n",
            (long long)computed, prompts_done - start, (long long)(shared * (count - 1)), (long long)steps, count,
            steps ? 1e3 * (now() - prompts_done) / (double)steps : 0.0);
    fprintf(stderr, "cache: %zu bytes a token, keys %s, values %s\n", cache_token_bytes(&engine->cache),
            clattn_type_name(engine->cache.options.key_type), clattn_type_name(engine->cache.options.value_type));
}

static void print_talk(const struct talk *talk)
{
    const struct options *options = talk->options;
    for (int i = 0; i < options->prompt_count; ++i) {
        const struct tokens *tokens = &talk->sequences[i];
        if (options->prompt_count > 1 && !options->numbers) {
            printf("%s> %s\n", i ? "\n" : "", options->prompts[i]);
        }
        for (int64_t at = talk->prompt_tokens[i]; at < tokens->count; ++at) {
            if (options->numbers) {
                printf("%s%d", at == talk->prompt_tokens[i] ? "" : " ", tokens->at[at]);
            } else if (options->prompt_count > 1 && tokens->at[at] != talk->end) {
                print_token(talk->tokeniser, tokens->at[at]);
            }
        }
        puts("");
    }
}

/* ---- what is asked for ---- */

static void generate(const struct options *options, const struct gguf *file, const struct tokeniser *tokeniser,
                     struct tokens *prompts)
{
    struct engine engine;
    struct cache_options cache = options->cache;
    struct talk talk = { options, tokeniser, prompts, NULL, NULL, -1 };
    talk.prompt_tokens = allocate((size_t)options->prompt_count * sizeof(*talk.prompt_tokens));
    talk.ended = allocate((size_t)options->prompt_count);
    talk.end = (int32_t)gguf_integer(file, "tokenizer.ggml.eos_token_id", 0, INT32_MAX, 0);
    cache.sequences = options->prompt_count;
    for (int i = 0; i < options->prompt_count; ++i) {
        talk.prompt_tokens[i] = prompts[i].count;
        cache.context = prompts[i].count > cache.context ? prompts[i].count : cache.context;
    }
    cache.context += options->length;
    if (cache.kind == CACHE_PAGED) {
        cache.shared_rows = common_beginning(prompts, options->prompt_count) / cache.page_size * cache.page_size;
    }
    engine_open(&engine, file, &cache);
    if (options->layer >= engine.model.layers) {
        fail("--layer %lld: the model has layers 0 to %lld", (long long)options->layer,
             (long long)engine.model.layers - 1);
    }
    talk_all(&engine, &talk);
    if (options->show) {
        const struct tokens *tokens = &prompts[0];
        const int64_t last = tokens->count - 1;
        show_weights(tokeniser, tokens->at, last + 1,
                     engine_weights(&engine, 0, last, tokens->at[last], options->layer));
    } else {
        print_talk(&talk);
    }
    engine_close(&engine);
    free(talk.prompt_tokens);
    free(talk.ended);
}

/* -ln of the softmax at one place, in float64. */
static double surprise(const float *logits, int64_t count, int32_t token)
{
    const double largest = (double)logits[likeliest(logits, count)];
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += exp((double)logits[i] - largest);
    }
    return log(sum) + largest - (double)logits[token];
}

static void read_text(const char *path, const struct tokeniser *tokeniser, struct tokens *tokens)
{
    enum { MOST = 1 << 24 };
    FILE *stream = fopen(path, "rb");
    char *text = allocate(MOST);
    if (!stream) {
        fail("cannot open %s", path);
    }
    const size_t length = fread(text, 1, MOST, stream);
    if (ferror(stream) || !feof(stream)) {
        fail("%s: cannot be read, or is larger than %d bytes", path, MOST);
    }
    fclose(stream);
    tokenise(tokeniser, text, length, tokens);
    free(text);
    if (tokens->count < 2) {
        fail("%s: has %lld tokens; a perplexity needs two", path, (long long)tokens->count);
    }
}

/* exp of the mean surprise of all tokens but the first. */
static void print_perplexity(const struct options *options, const struct gguf *file, const struct tokeniser *tokeniser)
{
    struct engine engine;
    struct tokens tokens = { 0 };
    struct cache_options cache = options->cache;
    double sum = 0;
    read_text(options->perplexity, tokeniser, &tokens);
    cache.sequences = 1;
    cache.context = tokens.count;
    engine_open(&engine, file, &cache);
    const int64_t vocabulary = engine.model.vocabulary, chunk = engine.cache.chunk;
    for (int64_t at = 0; at < tokens.count - 1; at += chunk) {
        const int64_t rows = tokens.count - 1 - at < chunk ? tokens.count - 1 - at : chunk;
        const float *logits = engine_prompt(&engine, 0, at, tokens.at + at, rows, 1);
        for (int64_t row = 0; row < rows; ++row) {
            sum += surprise(logits + row * vocabulary, vocabulary, tokens.at[at + row + 1]);
        }
    }
    printf("%lld tokens, perplexity %.5f, %zu bytes of keys and values a token\n", (long long)tokens.count,
           exp(sum / (double)(tokens.count - 1)), cache_token_bytes(&engine.cache));
    engine_close(&engine);
    free(tokens.at);
}

static void print_tokens(const struct tokens *tokens)
{
    for (int64_t i = 0; i < tokens->count; ++i) {
        printf("%s%d", i ? " " : "", tokens->at[i]);
    }
    puts("");
}

int main(int count, char **arguments)
{
    struct options options;
    struct gguf file;
    struct model model; /* its numbers; a file that is no model ends the program here */
    struct tokeniser tokeniser = { 0 };
    options_read(&options, count, arguments);
    gguf_open(&file, options.model);
    model_describe(&model, &file);
    if (!options.numbers || options.show) {
        tokeniser_open(&tokeniser, &file);
    }
    struct tokens *prompts = allocate((size_t)options.prompt_count * sizeof(*prompts));
    for (int i = 0; i < options.prompt_count; ++i) {
        read_prompt(&options, &tokeniser, model.vocabulary, options.prompts[i], &prompts[i]);
        if (options.tokens) {
            print_tokens(&prompts[i]);
        }
    }
    if (options.perplexity) {
        print_perplexity(&options, &file, &tokeniser);
    } else if (!options.tokens) {
        generate(&options, &file, options.numbers && !options.show ? NULL : &tokeniser, prompts);
    }
    for (int i = 0; i < options.prompt_count; ++i) {
        free(prompts[i].at);
    }
    free(prompts);
    tokeniser_close(&tokeniser);
    gguf_close(&file);
    return 0;
}
