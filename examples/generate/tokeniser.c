#include "tokeniser.h"

#include "failure.h"
#include "words.h"

#include <string.h>

/* ---- tables of texts ---- */

/* FNV-1a, of several spans as if they were one. */
static uint64_t hash(uint64_t state, struct span text)
{
    for (size_t i = 0; i < text.length; ++i) {
        state = (state ^ (unsigned char)text.at[i]) * 1099511628211u;
    }
    return state;
}

static const uint64_t hash_start = 14695981039346656037u;

static void table_open(struct text_table *table, uint64_t count)
{
    for (table->slots = 16; table->slots < 2 * count;) {
        table->slots *= 2;
    }
    table->entries = allocate(table->slots * sizeof(*table->entries));
}

/* The first of two equal texts stays. */
static void table_add(struct text_table *table, struct span text, int32_t number)
{
    size_t slot = hash(hash_start, text) & (table->slots - 1);
    for (; table->entries[slot].text.at; slot = (slot + 1) & (table->slots - 1)) {
        const struct span other = table->entries[slot].text;
        if (other.length == text.length && !memcmp(other.at, text.at, text.length)) {
            return;
        }
    }
    table->entries[slot].text = text;
    table->entries[slot].number = number;
}

/* The number of left + between + right; -1: it is not there. */
static int32_t table_find(const struct text_table *table, struct span left, struct span between, struct span right)
{
    const size_t length = left.length + between.length + right.length;
    size_t slot = hash(hash(hash(hash_start, left), between), right) & (table->slots - 1);
    for (; table->entries[slot].text.at; slot = (slot + 1) & (table->slots - 1)) {
        const struct span text = table->entries[slot].text;
        if (text.length == length && !memcmp(text.at, left.at, left.length) &&
            !memcmp(text.at + left.length, between.at, between.length) &&
            !memcmp(text.at + left.length + between.length, right.at, right.length)) {
            return table->entries[slot].number;
        }
    }
    return -1;
}

static const struct span nothing = { "", 0 }, blank = { " ", 1 };

/* ---- the alphabet: each byte as a character that can be seen ---- */

/* GPT-2's: bytes that are printable in Latin-1 are themselves, the others 256 and on, in their order. */
static int is_itself(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static unsigned character_of(unsigned byte)
{
    unsigned others = 0;
    for (unsigned other = 0; other < byte; ++other) {
        others += !is_itself(other);
    }
    return is_itself(byte) ? byte : 256 + others;
}

/* All characters are below 2,048: one or two bytes of UTF-8. */
static size_t spell(unsigned character, char *out)
{
    if (character < 128) {
        out[0] = (char)character;
        return 1;
    }
    out[0] = (char)(192 + character / 64);
    out[1] = (char)(128 + character % 64);
    return 2;
}

/* ---- opening ---- */

void tokeniser_open(struct tokeniser *tokeniser, const struct gguf *file)
{
    enum { NORMAL = 1, USER_DEFINED = 4 };
    const struct gguf_field *texts = gguf_array(file, "tokenizer.ggml.tokens", GGUF_STRING);
    const struct gguf_field *kinds = gguf_array(file, "tokenizer.ggml.token_type", GGUF_INT32);
    const struct gguf_field *merges = gguf_array(file, "tokenizer.ggml.merges", GGUF_STRING);
    const unsigned char *at = texts->values;
    if (!gguf_text_is(file, "tokenizer.ggml.model", "gpt2") || !gguf_text_is(file, "tokenizer.ggml.pre", "smollm")) {
        fail("%s: this engine has the tokeniser gpt2 with the words of smollm only; give token numbers (--numbers)",
             file->path);
    }
    if (texts->count < 1 || kinds->count != texts->count) {
        fail("%s: %llu tokens and %llu token types", file->path, (unsigned long long)texts->count,
             (unsigned long long)kinds->count);
    }
    tokeniser->count = (int32_t)texts->count;
    tokeniser->texts = allocate((size_t)texts->count * sizeof(*tokeniser->texts));
    tokeniser->kinds = allocate((size_t)texts->count);
    table_open(&tokeniser->numbers, texts->count);
    for (int32_t i = 0; i < tokeniser->count; ++i) {
        const unsigned kind = kinds->values[4 * i];
        tokeniser->texts[i] = gguf_next_string(&at);
        tokeniser->kinds[i] = kind != NORMAL && kind != USER_DEFINED;
        table_add(&tokeniser->numbers, tokeniser->texts[i], i);
    }
    table_open(&tokeniser->merges, merges->count);
    at = merges->values;
    for (int32_t i = 0; i < (int32_t)merges->count; ++i) {
        table_add(&tokeniser->merges, gguf_next_string(&at), i);
    }
    tokeniser->unknown = (int32_t)gguf_integer(file, "tokenizer.ggml.unknown_token_id", 0, tokeniser->count - 1, 0);
    tokeniser->end = (int32_t)gguf_integer(file, "tokenizer.ggml.eos_token_id", 0, tokeniser->count - 1, -1);
}

void tokeniser_close(struct tokeniser *tokeniser)
{
    free(tokeniser->texts);
    free(tokeniser->kinds);
    free(tokeniser->numbers.entries);
    free(tokeniser->merges.entries);
}

/* ---- text to tokens ---- */

void token_append(struct tokens *tokens, int32_t token)
{
    if (tokens->count == tokens->room) {
        tokens->room = tokens->room ? 2 * tokens->room : 256;
        tokens->at = realloc(tokens->at, (size_t)tokens->room * sizeof(*tokens->at));
        if (!tokens->at) {
            fail("no memory for %lld tokens", (long long)tokens->room);
        }
    }
    tokens->at[tokens->count++] = token;
}

int has_mark(const struct tokeniser *tokeniser, const char *name)
{
    const struct span text = { name, strlen(name) };
    const int32_t number = table_find(&tokeniser->numbers, text, nothing, nothing);
    return number >= 0 && tokeniser->kinds[number];
}

void token_mark(const struct tokeniser *tokeniser, const char *name, struct tokens *tokens)
{
    const struct span text = { name, strlen(name) };
    if (!has_mark(tokeniser, name)) {
        fail("the model has no token %s: it is no chat model of this kind; --raw continues a text", name);
    }
    token_append(tokens, table_find(&tokeniser->numbers, text, nothing, nothing));
}

/* The neighbours that the vocabulary merged first; -1: none. */
static int64_t first_merge(const struct tokeniser *tokeniser, const struct span *pieces, int64_t count)
{
    int64_t best = -1;
    int32_t best_rank = INT32_MAX;
    for (int64_t i = 0; i + 1 < count; ++i) {
        const int32_t rank = table_find(&tokeniser->merges, pieces[i], blank, pieces[i + 1]);
        if (rank >= 0 && rank < best_rank) {
            best_rank = rank;
            best = i;
        }
    }
    return best;
}

/* One word: its bytes, then neighbours merged until no merge is left. */
static void tokenise_word(const struct tokeniser *tokeniser, const char *word, size_t length, struct tokens *tokens)
{
    char *spelled = allocate(2 * length);
    struct span *pieces = allocate(length * sizeof(*pieces));
    int64_t count = (int64_t)length;
    size_t end = 0;
    for (size_t i = 0; i < length; ++i) {
        pieces[i].at = spelled + end;
        pieces[i].length = spell(character_of((unsigned char)word[i]), spelled + end);
        end += pieces[i].length;
    }
    for (int64_t i = first_merge(tokeniser, pieces, count); i >= 0; i = first_merge(tokeniser, pieces, count)) {
        pieces[i].length += pieces[i + 1].length;
        memmove(pieces + i + 1, pieces + i + 2, (size_t)(count - i - 2) * sizeof(*pieces));
        --count;
    }
    for (int64_t i = 0; i < count; ++i) {
        const int32_t number = table_find(&tokeniser->numbers, pieces[i], nothing, nothing);
        token_append(tokens, number >= 0 ? number : tokeniser->unknown);
    }
    free(pieces);
    free(spelled);
}

void tokenise(const struct tokeniser *tokeniser, const char *text, size_t length, struct tokens *tokens)
{
    for (size_t at = 0; at < length;) {
        const size_t word = word_length(text + at, length - at);
        tokenise_word(tokeniser, text + at, word, tokens);
        at += word;
    }
}

/* ---- tokens to text ---- */

char *token_text(const struct tokeniser *tokeniser, int32_t token, size_t *length)
{
    const struct span text = tokeniser->texts[token];
    char *bytes = allocate(text.length);
    *length = 0;
    if (tokeniser->kinds[token]) {
        memcpy(bytes, text.at, text.length);
        *length = text.length;
        return bytes;
    }
    for (size_t i = 0; i < text.length;) {
        char spelled[2];
        unsigned byte = 0;
        size_t size = 0;
        for (; byte < 256; ++byte) {
            size = spell(character_of(byte), spelled);
            if (size <= text.length - i && !memcmp(spelled, text.at + i, size)) {
                break;
            }
        }
        if (byte < 256) {
            bytes[(*length)++] = (char)byte;
        }
        i += byte < 256 ? size : 1; /* what no byte is spelled as has no text */
    }
    return bytes;
}
