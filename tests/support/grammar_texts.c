/* Scores change with s in one place at most of a sum, so that nothing cancels but what the error bound knows of, and
 * numbers of the places are small and exact in float32. */
#include "grammar_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "random.h"

#define NODES_MOST 96
#define TABLE_ELEMENTS 61

enum kind {
    /* numbers */
    SCORE,
    CONSTANT,
    LOADED,   /* table[a] */
    OF_PLACE, /* a number of a */
    SUM,
    SCALED, /* by a constant */
    TANH,
    SOFTSIGN,
    CHOICE, /* c ? a : b */
    /* numbers of places, whole */
    B,
    H,
    I,
    J,
    DIFFERENCE,
    QUOTIENT,
    REMAINDER, /* by a constant, not negative */
    /* conditions on them */
    AT_MOST,
    EQUAL,
    EITHER,
    BOTH
};

struct node {
    enum kind kind;
    int a, b, c; /* nodes */
    double constant;
};

struct grammar {
    struct test_code test;
    struct node node[NODES_MOST];
    int nodes, score, mask;
    char name[24];
};

struct place {
    double s;
    int64_t b, h, i, j;
    const clattn_code_inputs *inputs;
};

/* ---- growing a tree ---- */

static int add(struct grammar *g, struct node node)
{
    g->node[g->nodes] = node;
    return g->nodes++;
}

static int pick(struct random *random, const enum kind *kinds, int count)
{
    return (int)kinds[random_between(random, 0, count - 1)];
}

static int grow_whole(struct grammar *g, struct random *random, int depth)
{
    static const enum kind all[] = { H, I, J, I, J, B, DIFFERENCE, QUOTIENT, REMAINDER };
    struct node node = { .kind = (enum kind)pick(random, all, depth > 0 && g->nodes < NODES_MOST / 2 ? 9 : 6) };
    if (node.kind >= DIFFERENCE) {
        node.a = grow_whole(g, random, depth - 1);
    }
    if (node.kind == DIFFERENCE) {
        node.b = grow_whole(g, random, depth - 1);
    }
    node.constant = (double)random_between(random, 1, 9);
    return add(g, node);
}

static int grow_condition(struct grammar *g, struct random *random, int depth)
{
    static const enum kind all[] = { AT_MOST, AT_MOST, EQUAL, EITHER, BOTH };
    struct node node = { .kind = (enum kind)pick(random, all, depth > 0 && g->nodes < NODES_MOST / 2 ? 5 : 3) };
    const int is_joined = node.kind == EITHER || node.kind == BOTH;
    node.a = is_joined ? grow_condition(g, random, depth - 1) : grow_whole(g, random, 1);
    node.b = is_joined ? grow_condition(g, random, depth - 1) : grow_whole(g, random, 1);
    if (node.kind == EQUAL) { /* of small remainders: else hardly ever */
        node.a = add(g, (struct node){ .kind = REMAINDER, .a = node.a, .constant = 3 });
        node.b = add(g, (struct node){ .kind = REMAINDER, .a = node.b, .constant = 2 });
    }
    return add(g, node);
}

/* `has_score`: it is made of s, somewhere. */
static int grow_number(struct grammar *g, struct random *random, int depth, int has_score)
{
    static const enum kind inner[] = { SUM, SCALED, TANH, SOFTSIGN, CHOICE, SUM };
    static const enum kind leaves[] = { CONSTANT, LOADED, OF_PLACE };
    const int is_leaf = depth <= 0 || g->nodes > NODES_MOST / 3;
    struct node node = { .kind = (enum kind)(!is_leaf    ? pick(random, inner, 6)
                                             : has_score ? (int)SCORE
                                                         : pick(random, leaves, 3)) };
    node.constant = (double)random_between(random, 1, 8) / 8;
    if (node.kind == LOADED || node.kind == OF_PLACE) {
        node.a = grow_whole(g, random, 2);
        node.a = add(g, (struct node){
                            .kind = REMAINDER, .a = node.a, .constant = node.kind == LOADED ? TABLE_ELEMENTS : 7 });
    }
    if (!is_leaf) {
        node.a = grow_number(g, random, depth - 1, has_score);
    }
    if (node.kind == SUM || node.kind == CHOICE) {
        node.b = grow_number(g, random, depth - 1, has_score && node.kind == CHOICE);
    }
    if (node.kind == CHOICE) {
        node.c = grow_condition(g, random, 1);
    }
    return add(g, node);
}

/* ---- in double ---- */

static int64_t whole_of(const struct grammar *g, int n, const struct place *at)
{
    const struct node *node = &g->node[n];
    const int64_t by = (int64_t)node->constant;
    switch (node->kind) {
    case B:
        return at->b;
    case H:
        return at->h;
    case I:
        return at->i;
    case J:
        return at->j;
    case DIFFERENCE:
        return whole_of(g, node->a, at) - whole_of(g, node->b, at);
    case QUOTIENT:
        return whole_of(g, node->a, at) / by;
    default:
        return (whole_of(g, node->a, at) % by + by) % by;
    }
}

static int holds(const struct grammar *g, int n, const struct place *at)
{
    const struct node *node = &g->node[n];
    switch (node->kind) {
    case AT_MOST:
        return whole_of(g, node->a, at) <= whole_of(g, node->b, at);
    case EQUAL:
        return whole_of(g, node->a, at) == whole_of(g, node->b, at);
    case EITHER:
        return holds(g, node->a, at) || holds(g, node->b, at);
    default:
        return holds(g, node->a, at) && holds(g, node->b, at);
    }
}

static double number_of(const struct grammar *g, int n, const struct place *at)
{
    const struct node *node = &g->node[n];
    switch (node->kind) {
    case SCORE:
        return at->s;
    case CONSTANT:
        return node->constant;
    case LOADED:
        return clattn_code_load(at->inputs, 0, whole_of(g, node->a, at));
    case OF_PLACE:
        return (double)whole_of(g, node->a, at) * 0.125;
    case SUM:
        return number_of(g, node->a, at) + number_of(g, node->b, at);
    case SCALED:
        return number_of(g, node->a, at) * node->constant;
    case TANH:
        return tanh(number_of(g, node->a, at));
    case SOFTSIGN: {
        const double x = number_of(g, node->a, at);
        return x / (1 + fabs(x));
    }
    default:
        return number_of(g, holds(g, node->c, at) ? node->a : node->b, at);
    }
}

static double slope_of(const struct grammar *g, int n, const struct place *at)
{
    const struct node *node = &g->node[n];
    double x;
    switch (node->kind) {
    case SCORE:
        return 1;
    case CONSTANT:
    case LOADED:
    case OF_PLACE:
        return 0;
    case SUM:
        return slope_of(g, node->a, at) + slope_of(g, node->b, at);
    case SCALED:
        return slope_of(g, node->a, at) * node->constant;
    case TANH:
        x = tanh(number_of(g, node->a, at));
        return (1 - x * x) * slope_of(g, node->a, at);
    case SOFTSIGN:
        x = 1 + fabs(number_of(g, node->a, at));
        return slope_of(g, node->a, at) / (x * x);
    default:
        return slope_of(g, holds(g, node->c, at) ? node->a : node->b, at);
    }
}

static double score(double s, int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *inputs)
{
    const struct grammar *g = inputs->code->context;
    const struct place at = { s, b, h, i, j, inputs };
    return number_of(g, g->score, &at);
}

static double score_slope(double s, int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *inputs)
{
    const struct grammar *g = inputs->code->context;
    const struct place at = { s, b, h, i, j, inputs };
    return slope_of(g, g->score, &at);
}

static int mask(int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *inputs)
{
    const struct grammar *g = inputs->code->context;
    const struct place at = { 0, b, h, i, j, inputs };
    return holds(g, g->mask, &at);
}

/* ---- in OpenCL C ---- */

/* In a format %A, %B and %C are nodes, as what `print` makes of them; %N is the constant. */
struct forms {
    const char *form[BOTH + 1];
};

static const struct forms values = { {
    [SCORE] = "s",
    [CONSTANT] = "(NUMBER)%N",
    [LOADED] = "LOAD(table, %A)",
    [OF_PLACE] = "(TO_NUMBER(%A) * (NUMBER)0.125)",
    [SUM] = "(%A + %B)",
    [SCALED] = "(%A * (NUMBER)%N)",
    [TANH] = "tanh(%A)",
    [SOFTSIGN] = "(%A / (1 + fabs(%A)))",
    [CHOICE] = "WHERE(%C, %A, %B)",
    [B] = "b",
    [H] = "h",
    [I] = "i",
    [J] = "j",
    [DIFFERENCE] = "(%A - %B)",
    [QUOTIENT] = "(%A / %N)",
    [REMAINDER] = "((%A % %N + %N) % %N)",
    [AT_MOST] = "(%A <= %B)",
    [EQUAL] = "(%A == %B)",
    [EITHER] = "(%A || %B)",
    [BOTH] = "(%A && %B)",
} };

/* %a and %b are derivatives of what %A and %B are. */
static const struct forms slopes = { {
    [SCORE] = "(NUMBER)1",
    [CONSTANT] = "(NUMBER)0",
    [LOADED] = "(NUMBER)0",
    [OF_PLACE] = "(NUMBER)0",
    [SUM] = "(%a + %b)",
    [SCALED] = "(%a * (NUMBER)%N)",
    [TANH] = "((1 - tanh(%A) * tanh(%A)) * %a)",
    [SOFTSIGN] = "(%a / ((1 + fabs(%A)) * (1 + fabs(%A))))",
    [CHOICE] = "WHERE(%C, %a, %b)",
} };

static void print(const struct grammar *g, int n, const struct forms *forms, struct text *text)
{
    const struct node *node = &g->node[n];
    for (const char *at = forms->form[node->kind]; *at; ++at) {
        const char which = at[0] == '%' ? at[1] : 0;
        if (which == 'A' || which == 'B' || which == 'C') {
            print(g, which == 'A' ? node->a : which == 'B' ? node->b : node->c, &values, text);
        } else if (which == 'a' || which == 'b') {
            print(g, which == 'a' ? node->a : node->b, &slopes, text);
        } else if (which == 'N') {
            text_append(text, "%g", node->constant);
        } else {
            text_append(text, "%c", *at);
            continue;
        }
        ++at;
    }
}

static void print_function(const struct grammar *g, const char *head, int n, const struct forms *forms,
                           struct text *text)
{
    text_append(text, "%sINDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n    return ", head);
    print(g, n, forms, text);
    text_append(text, ";\n}\n");
}

static char *source_of(const struct grammar *g)
{
    struct text text = TEXT_INIT;
    print_function(g, "NUMBER clattn_score(NUMBER s, ", g->score, &values, &text);
    print_function(g, "NUMBER clattn_score_slope(NUMBER s, ", g->score, &slopes, &text);
    if (g->test.code.functions & CLATTN_CODE_MASK) {
        print_function(g, "TRUTH clattn_mask(", g->mask, &values, &text);
    }
    return text_take(&text);
}

/* ---- the texts ---- */

static struct grammar *make(uint64_t n)
{
    struct grammar *g = calloc(1, sizeof(*g));
    struct random random = random_start(0x6772616d6d6172, n);
    if (!g) {
        return NULL;
    }
    clattn_user_code *code = &g->test.code;
    clattn_user_code_init(code, sizeof(*code));
    g->score = grow_number(g, &random, 1 + (int)(n % 4), 1);
    code->functions = CLATTN_CODE_SCORE | CLATTN_CODE_SCORE_SLOPE;
    code->score = score;
    code->score_slope = score_slope;
    if (n % 2) {
        g->mask = grow_condition(g, &random, 2);
        code->functions |= CLATTN_CODE_MASK;
        code->mask = mask;
    }
    code->context = g;
    code->tensor_count = 1;
    code->tensors[0] = (clattn_code_tensor){ "table", CLATTN_ELEMENT_FLOAT32, TABLE_ELEMENTS };
    code->source = source_of(g);
    g->test.low = -1;
    g->test.high = 1;
    snprintf(g->name, sizeof(g->name), "grammar %d", (int)n);
    g->test.name = g->name;
    return g;
}

const struct test_code *grammar_text(uint64_t n)
{
    static struct grammar *made[GRAMMAR_TEXTS];
    struct grammar **here = &made[n % GRAMMAR_TEXTS];
    if (!*here) {
        *here = make(n % GRAMMAR_TEXTS);
    }
    return *here ? &(*here)->test : NULL;
}
