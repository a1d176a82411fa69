/* Wisdom as a table and as text. */
#include "plan/wisdom.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/stored_types.h"
#include "operation/problem.h"

#define CLASS_MOST ((int64_t)1 << 30)
#define TILE_MOST 4096
#define NS_MOST ((int64_t)1000000000000000) /* twelve days */

/* ---- fields --------------------------------------------------------------------------------- */

/* The numbers of a fact, in the order of their words. */
#define NUMBER(word_, field_, least_, most_, is_power_)                                                                \
    {                                                                                                                  \
        word_, offsetof(struct wisdom_fact, field_), least_, most_, is_power_                                          \
    }
static const struct number {
    const char *word; /* '=' stands behind it */
    size_t offset;
    int64_t least, most;
    int is_power; /* of two */
} numbers[] = {
    NUMBER("head_dim", of.head_dim, 1, CLASS_MOST, 1),
    NUMBER("head_dim_v", of.head_dim_v, 1, CLASS_MOST, 1),
    NUMBER("rows", of.rows, 1, CLASS_MOST, 1),
    NUMBER("keys", of.keys, 1, CLASS_MOST, 1),
    NUMBER("planes", of.planes, 1, CLASS_MOST, 1),
    NUMBER("causal", of.causal, 0, 1, 0),
    NUMBER("tile_rows", tile.rows, 0, TILE_MOST, 0),
    NUMBER("item_keys", tile.item_keys, 0, TILE_MOST, 0),
    NUMBER("item_columns", tile.item_columns, 0, TILE_MOST, 0),
    NUMBER("shared", tile.shared, 0, TILE_MOST, 0),
    NUMBER("shape", tile.shape, 0, TILE_MOST, 0),
    NUMBER("sums", tile.sums, 0, TILE_MOST, 0),
    NUMBER("launches", tile.launches, 0, TILE_MOST, 0),
    NUMBER("table_ns", table_ns, 1, NS_MOST, 0),
    NUMBER("tuned_ns", tuned_ns, 1, NS_MOST, 0),
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

static int64_t *number_of(struct wisdom_fact *fact, const struct number *number)
{
    return (int64_t *)(void *)((char *)fact + number->offset);
}

int wisdom_number(const struct wisdom_fact *fact, int i, const char **word, int64_t *value)
{
    struct wisdom_fact copy = *fact;
    if (i >= NUMBERS) {
        return 0;
    }
    *word = numbers[i].word;
    *value = *number_of(&copy, &numbers[i]);
    return 1;
}

void wisdom_describe_tile(const struct wisdom_tile *tile, struct text *text)
{
    struct wisdom_fact fact = { .tile = *tile };
    const size_t from = offsetof(struct wisdom_fact, tile), end = from + sizeof(*tile);
    for (int i = 0; i < NUMBERS; ++i) {
        if (numbers[i].offset >= from && numbers[i].offset < end && *number_of(&fact, &numbers[i]) != 0) {
            text_append(text, "%s%s=%lld", text->length ? " " : "", numbers[i].word,
                        (long long)*number_of(&fact, &numbers[i]));
        }
    }
}

static int64_t power_of_two(int64_t number)
{
    int64_t power = 1;
    while (power < number && power < CLASS_MOST) {
        power *= 2;
    }
    return power;
}

/* CLASS_MOST where it is about that or more. */
static int64_t product(int64_t a, int64_t b)
{
    return power_of_two(a) * power_of_two(b) <= CLASS_MOST ? a * b : CLASS_MOST;
}

struct wisdom_class wisdom_class_of(const char *name, const clattn_problem *p)
{
    struct wisdom_class of;
    memset(&of, 0, sizeof(of));
    snprintf(of.name, sizeof(of.name), "%s", name);
    for (char *c = of.name; *c; ++c) {
        *c = *c == ' ' ? '_' : *c;
    }
    of.type = p->type;
    of.key_type = p->key_type;
    of.value_type = p->value_type;
    of.head_dim = power_of_two(p->head_dim);
    of.head_dim_v = power_of_two(p->head_dim_v);
    of.rows = power_of_two(product(p->query_len, problem_group(p)));
    of.keys = power_of_two(p->key_len);
    of.planes = power_of_two(product(p->batch, p->kv_heads));
    of.causal = p->causal != 0;
    return of;
}

struct wisdom_class wisdom_strategy_class_of(const char *strategy, const clattn_problem *p)
{
    struct wisdom_class of = wisdom_class_of(strategy, p);
    of.kind = WISDOM_STRATEGY;
    of.planes = 1;
    return of;
}

int wisdom_tile_equal(const struct wisdom_tile *a, const struct wisdom_tile *b)
{
    return memcmp(a, b, sizeof(*a)) == 0; /* numbers of one type: nothing between them */
}

/* ---- the table ------------------------------------------------------------------------------ */

static int class_equal(const struct wisdom_class *a, const struct wisdom_class *b)
{
    const int has_one_name = a->kind == WISDOM_STRATEGY || strcmp(a->name, b->name) == 0;
    return a->kind == b->kind && has_one_name && a->type == b->type && a->key_type == b->key_type &&
           a->value_type == b->value_type && a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v &&
           a->rows == b->rows && a->keys == b->keys && a->planes == b->planes && a->causal == b->causal;
}

const struct wisdom_fact *wisdom_find(const struct wisdom *wisdom, const struct wisdom_class *of)
{
    for (size_t i = 0; wisdom && i < wisdom->count; ++i) {
        if (class_equal(&wisdom->facts[i].of, of)) {
            return &wisdom->facts[i];
        }
    }
    return NULL;
}

static void drop(struct wisdom *wisdom, size_t i)
{
    --wisdom->count;
    memmove(wisdom->facts + i, wisdom->facts + i + 1, (wisdom->count - i) * sizeof(wisdom->facts[0]));
}

void wisdom_forget(struct wisdom *wisdom, const struct wisdom_class *of)
{
    const struct wisdom_fact *fact = wisdom_find(wisdom, of);
    if (fact) {
        drop(wisdom, (size_t)(fact - wisdom->facts));
    }
}

void wisdom_learn(struct wisdom *wisdom, const struct wisdom_fact *fact)
{
    const struct wisdom_fact copy = *fact; /* it may be one of the table's own */
    wisdom_forget(wisdom, &copy.of);
    if (wisdom->count == WISDOM_FACTS_MAX) {
        drop(wisdom, 0);
    }
    wisdom->facts[wisdom->count++] = copy;
}

/* ---- text ----------------------------------------------------------------------------------- */

static const char *const kind_words[] = { [WISDOM_TILE] = "tile", [WISDOM_STRATEGY] = "strategy" };

/* What is left of a line. */
struct rest {
    const char *at;
    size_t bytes;
};

static int take(struct rest *rest, const char *word)
{
    const size_t bytes = strlen(word);
    if (rest->bytes < bytes || memcmp(rest->at, word, bytes) != 0) {
        return 0;
    }
    rest->at += bytes;
    rest->bytes -= bytes;
    return 1;
}

static int take_number(struct rest *rest, const struct number *number, int64_t *result)
{
    int64_t value = 0;
    size_t digits = 0;
    for (; digits < rest->bytes && ascii_is_digit(rest->at[digits]); ++digits) {
        value = value * 10 + (rest->at[digits] - '0');
        if (value > number->most) {
            return 0;
        }
    }
    if (digits == 0 || (digits > 1 && rest->at[0] == '0') || value < number->least ||
        (number->is_power && (value & (value - 1)) != 0)) {
        return 0;
    }
    rest->at += digits;
    rest->bytes -= digits;
    *result = value;
    return 1;
}

static int is_of_a_name(char c)
{
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '_';
}

static int take_name(struct rest *rest, char name[WISDOM_NAME_BYTES])
{
    size_t bytes = 0;
    while (bytes < rest->bytes && is_of_a_name(rest->at[bytes])) {
        ++bytes;
    }
    if (bytes == 0 || bytes >= WISDOM_NAME_BYTES) {
        return 0;
    }
    memcpy(name, rest->at, bytes); /* zeros stand behind it */
    rest->at += bytes;
    rest->bytes -= bytes;
    return 1;
}

static int take_type(struct rest *rest, clattn_type *type)
{
    for (int i = CLATTN_FLOAT32; i < STORED_TYPES; ++i) {
        if (take(rest, clattn_type_name((clattn_type)i))) {
            *type = (clattn_type)i;
            return 1;
        }
    }
    return 0;
}

/* A strategy is chosen for all batches and heads alike, and nothing else is with it. */
static int is_of_a_strategy(const struct wisdom_fact *fact)
{
    static const struct wisdom_tile none;
    return fact->of.planes == 1 && wisdom_tile_equal(&fact->tile, &none);
}

int wisdom_read_line(const char *line, size_t bytes, struct wisdom_fact *fact)
{
    struct rest rest = { line, bytes };
    struct wisdom_class *of = &fact->of;
    memset(fact, 0, sizeof(*fact));
    of->kind = take(&rest, kind_words[WISDOM_STRATEGY]) ? WISDOM_STRATEGY : WISDOM_TILE;
    int taken = (of->kind == WISDOM_STRATEGY || take(&rest, kind_words[WISDOM_TILE])) && take(&rest, " clattn=") &&
                take(&rest, clattn_version()) && take(&rest, " for=") && take_name(&rest, of->name) &&
                take(&rest, " types=") && take_type(&rest, &of->type) && take(&rest, ",") &&
                take_type(&rest, &of->key_type) && take(&rest, ",") && take_type(&rest, &of->value_type);
    for (int i = 0; i < NUMBERS; ++i) {
        taken = taken && take(&rest, " ") && take(&rest, numbers[i].word) && take(&rest, "=") &&
                take_number(&rest, &numbers[i], number_of(fact, &numbers[i]));
    }
    return taken && rest.bytes == 0 && (of->kind == WISDOM_TILE || is_of_a_strategy(fact));
}

void wisdom_read(struct wisdom *wisdom, const char *text, size_t bytes)
{
    const char *const end = text + (bytes < WISDOM_BYTES_MAX ? bytes : WISDOM_BYTES_MAX);
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct wisdom_fact fact;
        /* A line without an end was cut off. */
        if (newline && wisdom_read_line(text, (size_t)(newline - text), &fact)) {
            wisdom_learn(wisdom, &fact);
        }
        text = newline ? newline + 1 : end;
    }
}

void wisdom_write_line(const struct wisdom_fact *fact, struct text *text)
{
    struct wisdom_fact copy = *fact;
    const struct wisdom_class *of = &fact->of;
    text_append(text, "%s clattn=%s for=%s types=%s,%s,%s", kind_words[of->kind], clattn_version(), of->name,
                clattn_type_name(of->type), clattn_type_name(of->key_type), clattn_type_name(of->value_type));
    for (int i = 0; i < NUMBERS; ++i) {
        text_append(text, " %s=%lld", numbers[i].word, (long long)*number_of(&copy, &numbers[i]));
    }
    text_append(text, "\n");
}
