/* Score functions of one's own: the same twelve tokens under four texts, and who attends to whom. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend.h"
#include "clattn_code.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define TOKENS 12
#define DIM 8

#define SCORE "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
#define MASK "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"

enum formula { AS_IT_IS, NEAR, CAPPED, SAME_COLUMN, TEXTS };

static const struct {
    const char *title, *formula, *source;
    uint32_t functions;
} texts[TEXTS] = {
    { "1. the score as it is", "s", NULL, 0 },
    { "2. nearer is better", "s - distance / 2", SCORE "{ return s - 0.5 * fabs(TO_NUMBER(i - j)); }\n",
      CLATTN_CODE_SCORE },
    { "3. no score is large", "tanh(s) / 2", SCORE "{ return 0.5 * tanh(s); }\n", CLATTN_CODE_SCORE },
    { "4. a picture 4 wide: the same column", "i % 4 == j % 4", MASK "{ return i % 4 == j % 4; }\n", CLATTN_CODE_MASK },
};

/* What a map of weights looks like: means over its rows. */
struct looks {
    double distance, largest, entropy; /* of a row's keys from it; of its weights; in bits */
    int keys;                          /* with a weight, in all rows */
};

static struct looks measure(const float *weights)
{
    struct looks found = { 0, 0, 0, 0 };
    for (int i = 0; i < TOKENS; ++i) {
        double largest = 0;
        for (int j = 0; j < TOKENS; ++j) {
            const double p = weights[i * TOKENS + j];
            found.distance += p * abs(i - j) / TOKENS;
            found.entropy -= p > 0 ? p * log2(p) / TOKENS : 0;
            found.keys += p > 0;
            largest = fmax(largest, p);
        }
        found.largest += largest / TOKENS;
    }
    return found;
}

static void draw(struct chart *chart, enum formula text, const float *weights)
{
    struct chart_panel *panel = chart_add(chart, texts[text].title, "key", "query", AXIS_LINEAR, AXIS_LINEAR);
    struct chart_heat *heat = chart_numbered_heat(chart, panel, TOKENS, TOKENS);
    for (int i = 0; heat && i < TOKENS; ++i) {
        for (int j = 0; j < TOKENS; ++j) {
            const double p = weights[i * TOKENS + j];
            heat->values[i][j] = p > 0 ? p : NAN;
        }
    }
}

static void begin(struct lesson_run *run)
{
    chart_begin(run->chart, "Four scores, and who attends to whom", 2);
    page_paragraph(run->page,
                   "%d tokens, random queries and keys of dimension %d, always the same. Between the score "
                   "s = q.k / sqrt(%d) and softmax stands a text of a few lines in OpenCL C, which the kernels are "
                   "compiled with: it is told s, the row i and the key j, and says what the score is, or whether the "
                   "key is seen.",
                   TOKENS, DIM, DIM);
    page_formula(run->page, "p_ij = softmax over j of f(s_ij, i, j)",
                 SUB(MI("p"), MI("ij")) MO("=") MI("softmax") MO("(") MI("f") MO("(") SUB(MI("s"), MI("ij")) MO(",")
                     MI("i") MO(",") MI("j") MO(")") MO(")"));
    page_picture(run->page,
                 "A map a text: rows are queries, columns keys, darker is more; what has no weight is crossed out. "
                 "Distance gathers the weights along the diagonal, a cap spreads them, a mask leaves a lattice.");
    page_table_caption(run->page, "What each text does to the weights of a row: means over the rows");
    page_row(run->page, "text|keys seen|distance of a key|largest weight|entropy");
}

int lesson_score(struct lesson_run *run)
{
    float vectors[2 * TOKENS * DIM], weights[TOKENS * TOKENS];
    struct looks looks[TEXTS];
    sample_normal(run->seed, 900, vectors, 2 * TOKENS * DIM);
    begin(run);
    for (enum formula text = AS_IT_IS; text < TEXTS; ++text) {
        clattn_user_code code = CLATTN_USER_CODE_INIT;
        code.source = texts[text].source;
        code.functions = texts[text].functions;
        const struct attend call = { .batch = 1,
                                     .rows = TOKENS,
                                     .keys = TOKENS,
                                     .dim = DIM,
                                     .scale = 1 / sqrt((double)DIM),
                                     .query = vectors,
                                     .key = vectors + TOKENS * DIM,
                                     .mode = CLATTN_WEIGHTS_SOFTMAX,
                                     .weights = weights,
                                     .code = code.source ? &code : NULL };
        const clattn_status status = attend(run, &call);
        if (status != CLATTN_OK) {
            return lesson_failed(run, status);
        }
        const struct looks *of = &looks[text];
        looks[text] = measure(weights);
        page_row(run->page, "%s|%.1f|%.2f|%.0f %%|%.2f bit", texts[text].formula, (double)of->keys / TOKENS,
                 of->distance, 100 * of->largest, of->entropy);
        draw(run->chart, text, weights);
    }
    page_table_end(run->page);
    page_figure(run->page, looks[NEAR].distance - looks[AS_IT_IS].distance, "distance gained");
    page_figure(run->page, looks[CAPPED].entropy, "entropy capped");
    page_figure(run->page, looks[SAME_COLUMN].keys, "keys of a lattice");
    page_conclusion(run->page,
                    "Taking half of the distance from each score brings the keys that a row looks at from %.1f to "
                    "%.1f places away. A cap of one half leaves no weight above %.0f %% in the mean, and %.2f bit of "
                    "the %.2f that are possible. A mask of one line leaves each row %d keys of %d. Nothing but the "
                    "text changed.",
                    looks[AS_IT_IS].distance, looks[NEAR].distance, 100 * looks[CAPPED].largest, looks[CAPPED].entropy,
                    log2(TOKENS), looks[SAME_COLUMN].keys / TOKENS, TOKENS);
    return 0;
}
