/* Attention as exporters write it where the operator set has no such operation, from product to product:
 *
 *     q [* c]  k^T [* c]                       c: constants of one element, also as divisors
 *          MatMul
 *     [* c] [Where hidden] [+ mask]
 *          Softmax  [Where IsNaN 0]   v
 *                 MatMul
 *
 * with the Transposes before and behind them that nobody else needs: PyTorch's two exporters, Paddle's. What a Where
 * hides by a number below -1e4 is not seen here: a row that sees nothing becomes 0, not the mean of all values. */
#include "pattern.h"

#include "graph.h"

#include <string.h>

#define WALK_MAX 6
#define FILLER_MAX (-1e4f)

/* The way back from the softmax to the first product. */
struct walk {
    struct claim *claim;
    double scale;
    int is_scaled, is_lost;
    const struct value *scores; /* where the walk is */
    struct node node;           /* whose input that is */
};

/* ---- the way back ------------------------------------------------------------------------------ */

/* A product by a constant, and which input is not the constant. Div: by the second. */
static OrtStatus *read_scaling(const struct node *node, double *scale, int *input, int *is_scaling)
{
    float number;
    const int is_division = node_is(node, "Div");
    *is_scaling = 0;
    if (!is_division && !node_is(node, "Mul")) {
        return NULL;
    }
    for (int n = is_division ? 1 : 0; n < 2 && !*is_scaling; ++n) {
        TRY(graph_scalar(&node->input[n], &number, is_scaling));
        *input = 1 - n;
    }
    if (*is_scaling) {
        *scale = is_division ? 1.0 / (double)number : (double)number;
    }
    return NULL;
}

/* Whether scores of a product are behind this value, by what may stand between. */
static OrtStatus *leads_to_product(const struct value *value, int steps, int *leads)
{
    struct node node;
    double scale;
    int input, is_found, is_scaling;
    *leads = 0;
    TRY(graph_producer(value, &node, &is_found));
    if (!is_found || steps == 0) {
        return NULL;
    }
    *leads = node_is(&node, "MatMul");
    TRY(read_scaling(&node, &scale, &input, &is_scaling));
    if (is_scaling) {
        return leads_to_product(&node.input[input], steps - 1, leads);
    }
    const int first = node_is(&node, "Where") ? 1 : 0, is_between = first == 1 || node_is(&node, "Add");
    for (int n = first; n < first + 2 && is_between && !*leads; ++n) {
        TRY(leads_to_product(&node.input[n], steps - 1, leads));
    }
    return NULL;
}

static void lose(struct walk *walk)
{
    walk->is_lost = 1;
}

/* Which input of an Add is the mask; the other one goes on. */
static OrtStatus *pass_add(struct walk *walk)
{
    int leads[2];
    for (int n = 0; n < 2; ++n) {
        TRY(leads_to_product(&walk->node.input[n], WALK_MAX, &leads[n]));
    }
    if (walk->is_scaled || walk->claim->input[PATTERN_BIAS].name || leads[0] == leads[1]) {
        lose(walk);
        return NULL;
    }
    const int scores = leads[1] > leads[0];
    const struct value *bias = &walk->node.input[1 - scores];
    if (type_of_element(bias->type) == CLATTN_TYPE_NONE) {
        lose(walk);
    }
    walk->claim->input[PATTERN_BIAS].name = bias->name;
    walk->scores = &walk->node.input[scores];
    return NULL;
}

static OrtStatus *pass_where(struct walk *walk)
{
    float filler;
    int is_constant = 0, place;
    for (place = 1; place <= 2 && !is_constant; ++place) {
        TRY(graph_scalar(&walk->node.input[place], &filler, &is_constant));
    }
    if (!is_constant || !(filler <= FILLER_MAX) || walk->claim->input[PATTERN_HIDDEN].name) {
        lose(walk);
        return NULL;
    }
    walk->claim->attributes.hides_where_true = place == 2; /* one behind the constant's */
    walk->claim->input[PATTERN_HIDDEN].name = walk->node.input[0].name;
    walk->scores = &walk->node.input[place == 2 ? 2 : 1];
    return NULL;
}

static OrtStatus *pass(struct walk *walk)
{
    double scale = 1.0;
    int input, is_scaling;
    if (node_is(&walk->node, "Add")) {
        return pass_add(walk);
    }
    if (node_is(&walk->node, "Where")) {
        return pass_where(walk);
    }
    TRY(read_scaling(&walk->node, &scale, &input, &is_scaling));
    if (!is_scaling) {
        lose(walk);
        return NULL;
    }
    walk->is_scaled = 1;
    walk->scale *= scale;
    walk->scores = &walk->node.input[input];
    return NULL;
}

/* From a value to the MatMul that made it, which walk->node is then. */
static OrtStatus *walk_back(const struct value *from, struct walk *walk)
{
    struct node producer;
    int is_found;
    walk->scores = from;
    for (int step = 0; step < WALK_MAX && !walk->is_lost; ++step) {
        TRY(graph_own_producer(walk->scores, &producer, &is_found));
        if (!is_found) {
            break;
        }
        walk->node = producer;
        claim_add(&walk->node, walk->claim);
        if (node_is(&walk->node, "MatMul")) {
            return NULL;
        }
        TRY(pass(walk));
    }
    lose(walk);
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------------- */

/* Behind a product by a constant that nobody else needs. */
static OrtStatus *unscaled(const struct value *value, struct walk *walk, struct node *scaling, const struct value **at)
{
    double scale;
    int input, is_found, is_scaling = 0;
    *at = value;
    TRY(graph_own_producer(value, scaling, &is_found));
    if (is_found) {
        TRY(read_scaling(scaling, &scale, &input, &is_scaling));
    }
    if (is_scaling) {
        walk->scale *= scale;
        claim_add(scaling, walk->claim);
        *at = &scaling->input[input];
    }
    return NULL;
}

/* A node of this operation that made the value for nobody else. */
static OrtStatus *producer_of(const struct value *value, const char *operation, struct node *producer, int *is_found)
{
    TRY(graph_own_producer(value, producer, is_found));
    *is_found = *is_found && node_is(producer, operation);
    return NULL;
}

/* k^T as torch's exporter writes it: heads that are folded into the batch around a Transpose of three axes. */
static OrtStatus *claim_folded_key(const struct value *value, struct claim *claim, int *is_claimed)
{
    struct node unfold, transpose, fold;
    int64_t axes[RANK_MAX];
    size_t count;
    *is_claimed = 0;
    TRY(producer_of(value, "Reshape", &unfold, is_claimed));
    if (*is_claimed) {
        TRY(producer_of(&unfold.input[0], "Transpose", &transpose, is_claimed));
    }
    if (*is_claimed) {
        TRY(node_integers(&transpose, "perm", axes, RANK_MAX, &count));
        TRY(producer_of(&transpose.input[0], "Reshape", &fold, is_claimed));
        *is_claimed = *is_claimed && count == 3 && axes[0] == 0 && axes[1] == 2 && axes[2] == 1;
    }
    if (!*is_claimed || fold.input[0].rank != 4) {
        *is_claimed = 0;
        return NULL;
    }
    claim_add(&unfold, claim);
    claim_add(&transpose, claim);
    claim_add(&fold, claim);
    return claim_transposed_input(PATTERN_KEY, &fold.input[0], claim);
}

/* k^T, [batch, heads, columns, keys], as keys. */
static OrtStatus *claim_key(const struct value *value, struct claim *claim)
{
    struct operand *key = &claim->input[PATTERN_KEY];
    struct node transpose;
    int is_found, axis[4] = { 0, 1, 2, 3 };
    TRY(claim_folded_key(value, claim, &is_found));
    if (is_found) {
        return NULL;
    }
    key->name = value->name;
    TRY(producer_of(value, "Transpose", &transpose, &is_found));
    if (is_found) {
        TRY(transposed_axes(&transpose, axis, &is_found));
    }
    if (is_found) {
        key->name = transpose.input[0].name;
        claim_add(&transpose, claim);
    }
    key->is_permuted = 1;
    key->axis[0] = axis[0];
    key->axis[1] = axis[1];
    key->axis[2] = axis[3];
    key->axis[3] = axis[2];
    return NULL;
}

/* Known from its shape, or from the Transpose that made it. */
static OrtStatus *has_four_axes(const struct value *value, int *has)
{
    struct node transpose;
    int axis[4], is_found;
    *has = value->rank == 4;
    if (value->rank != -1) {
        return NULL;
    }
    TRY(graph_producer(value, &transpose, &is_found));
    return is_found ? transposed_axes(&transpose, axis, has) : NULL;
}

static OrtStatus *claim_operands(const struct node *second, struct walk *walk)
{
    struct node scaling;
    const struct value *query, *key;
    int has_axes;
    TRY(unscaled(&walk->node.input[0], walk, &scaling, &query));
    TRY(has_four_axes(query, &has_axes));
    if (!has_axes) {
        lose(walk);
        return NULL;
    }
    TRY(claim_transposed_input(PATTERN_QUERY, query, walk->claim));
    TRY(unscaled(&walk->node.input[1], walk, &scaling, &key));
    TRY(has_four_axes(key, &has_axes));
    if (!has_axes || key->type != second->input[1].type) {
        lose(walk);
        return NULL;
    }
    TRY(claim_key(key, walk->claim));
    TRY(claim_transposed_input(PATTERN_VALUE, &second->input[1], walk->claim));
    return claim_transposed_output(&second->output[0], walk->claim);
}

/* ---- the way on -------------------------------------------------------------------------------- */

/* The Where that makes 0 of what is no number, and its condition. */
static OrtStatus *find_guard(const struct node *softmax, struct node *guard, struct node *is_nan, int *is_found)
{
    const OrtNode *readers[2];
    size_t count;
    float zero = 1.0f;
    *is_found = 0;
    TRY(graph_consumers(&softmax->output[0], readers, 2, &count));
    if (count != 2) {
        return NULL;
    }
    TRY(node_read(readers[0], is_nan));
    TRY(node_read(readers[1], guard));
    if (node_is(is_nan, "Where")) {
        TRY(node_read(readers[1], is_nan));
        TRY(node_read(readers[0], guard));
    }
    if (node_is(is_nan, "IsNaN") && node_is(guard, "Where") && guard->input[2].name && guard->input[0].name &&
        strcmp(guard->input[0].name, is_nan->output[0].name) == 0 &&
        strcmp(guard->input[2].name, softmax->output[0].name) == 0) {
        TRY(graph_scalar(&guard->input[1], &zero, is_found));
        *is_found = *is_found && zero == 0.0f;
    }
    return NULL;
}

/* The product of weights and values; *is_found 0: this softmax is none of attention. */
static OrtStatus *find_second(const struct node *softmax, struct node *second, struct claim *claim, int *is_found)
{
    struct node guard, is_nan;
    TRY(find_guard(softmax, &guard, &is_nan, is_found));
    if (*is_found) {
        claim_add(&is_nan, claim);
        claim_add(&guard, claim);
    }
    const struct value *weights = *is_found ? &guard.output[0] : &softmax->output[0];
    TRY(graph_only_consumer(weights, "MatMul", second, is_found));
    *is_found = *is_found && strcmp(second->input[0].name, weights->name) == 0;
    if (*is_found) {
        claim_add(second, claim);
    }
    return NULL;
}

OrtStatus *pattern_gather(const struct node *softmax, struct claim *claim)
{
    struct node second;
    struct walk walk;
    int64_t axis;
    int is_found;
    memset(&walk, 0, sizeof(walk));
    walk.claim = claim;
    walk.scale = 1.0;
    claim_add(softmax, claim);
    TRY(find_second(softmax, &second, claim, &is_found));
    if (!is_found) {
        claim->kind = NULL;
        return NULL;
    }
    TRY(node_integer(softmax, "axis", softmax->version < 13 ? 1 : -1, &axis));
    TRY(has_four_axes(&second.input[1], &is_found));
    walk.is_lost = !is_found || (axis != -1 && (axis != 3 || softmax->input[0].rank != 4)) ||
                   claim_reason_of_type(second.input[1].type) != DECLINED_NOT;
    TRY(walk_back(&softmax->input[0], &walk));
    if (!walk.is_lost) {
        TRY(claim_operands(&second, &walk));
    }
    claim->attributes.has_scale = 1;
    claim->attributes.scale = (float)walk.scale;
    claim->attributes.window_left = claim->attributes.window_right = -1;
    claim->reason = walk.is_lost ? DECLINED_PATTERN : claim->reason;
    return NULL;
}
