#include "check_text.h"

#include <math.h>
#include <stdlib.h>

#define SCALE_STEP 1e-4        /* of the second scale */
#define SCORE_SHARE_LEAST 1e-6 /* of A_j: a smaller score tells no derivative */

static int forward(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                   const clattn_host_tensors *host, struct failure *failure)
{
    if (clattn_forward_host(context, problem, call, host) == CLATTN_OK) {
        return 0;
    }
    return failure_failed(failure, "check: the reference of a text, strategy plain in float64: %s",
                          clattn_last_error());
}

/* `z`, `stepped`: logits at the scale and a step beyond; `s`: scores at the scale. */
static void add_text(double *magnitude, const double *z, const double *stepped, const double *s, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        const int tells = fabs(s[n]) > SCORE_SHARE_LEAST * magnitude[n];
        const double by = tells ? (stepped[n] - z[n]) / (SCALE_STEP * s[n]) : 1;
        magnitude[n] = fabs(by) * magnitude[n] + fabs(z[n]) + fabs(z[n] - by * s[n]);
    }
}

int check_text_forward(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                       const clattn_host_tensors *host, double *magnitude, struct failure *failure)
{
    const int64_t count = problem->query_heads * problem->query_len * problem->key_len;
    double *numbers = malloc((size_t)(3 * count + 1) * sizeof *numbers);
    double *const z = numbers, *const stepped = numbers + count, *const s = numbers + 2 * count;
    clattn_problem p = *problem;
    clattn_host_tensors of_logits = *host;
    clattn_call other = *call;
    p.strategy = "plain";
    int status = numbers ? 0 : failure_failed(failure, "check: out of memory");
    const struct {
        clattn_weights weights;
        double step, *to;
    } runs[] = { { CLATTN_WEIGHTS_SCORES, 0, s },
                 { CLATTN_WEIGHTS_LOGITS, 0, z },
                 { CLATTN_WEIGHTS_LOGITS, SCALE_STEP, stepped } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs && status == 0; i++) {
        p.weights = runs[i].weights;
        of_logits.weights.data = runs[i].to;
        other.has_scale = 1;
        other.scale = (call->has_scale ? call->scale : 1 / sqrt((double)p.head_dim)) * (1 + runs[i].step);
        status = forward(context, &p, &other, &of_logits, failure);
    }
    if (status == 0) { /* the last run leaves its out and lse */
        add_text(magnitude, z, stepped, s, count);
        p.weights = problem->weights;
        status = forward(context, &p, call, host, failure);
    }
    free(numbers);
    return status;
}
