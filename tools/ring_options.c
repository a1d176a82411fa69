#include "ring_options.h"

#include "problem_options.h"

#define RANKS_USUAL 4
#define RANKS_MOST 1024 /* schedules of all of them are made */
#define SECONDS_USUAL 0.5
#define SECONDS_MOST 3600

static int refuse(const struct options *options, const enum option_id *ids, const char *rule, struct failure *failure)
{
    for (; *ids != OPTION_NONE; ids++) {
        if (options->value[*ids]) {
            return failure_misuse(failure, "--%s: %s; leave it out", option_name(*ids), rule);
        }
    }
    return 0;
}

/* What both kinds have. */
static int read_both(const struct options *options, clattn_problem *problem, clattn_ring_options *ring,
                     struct failure *failure)
{
    int layout = CLATTN_RING_CONTIGUOUS, algorithm = CLATTN_RING_AUTO;
    if (problem_without_data_read(options, problem, failure) != 0 ||
        option_choice(options, OPTION_RING_LAYOUT, &layout, failure) != 0 ||
        option_choice(options, OPTION_ALGORITHM, &algorithm, failure) != 0) {
        return -1;
    }
    if (problem->alignment == CLATTN_ALIGN_OFFSETS) {
        return failure_misuse(failure, "--causal, --align: offsets are a call's; give top-left or bottom-right");
    }
    ring->layout = (clattn_ring_layout)layout;
    ring->algorithm = (clattn_ring_algorithm)algorithm;
    ring->gradients = options->value[OPTION_EXPLAIN_BACKWARD] != NULL;
    return 0;
}

int ring_options_read(const struct options *options, clattn_problem *problem, clattn_ring_options *ring,
                      struct failure *failure)
{
    static const enum option_id of_ranks[] = { OPTION_DEVICE, OPTION_SECONDS, OPTION_NONE };
    ring->ranks = RANKS_USUAL;
    if (refuse(options, of_ranks, "nothing is computed but by ranks that mpirun starts", failure) != 0 ||
        read_both(options, problem, ring, failure) != 0 ||
        option_integer(options, OPTION_RANKS, 1, RANKS_MOST, &ring->ranks, failure) != 0 ||
        option_integer(options, OPTION_RANK, 0, ring->ranks - 1, &ring->rank, failure) != 0 ||
        option_number(options, OPTION_FLOP_RATE, &ring->flop_per_s, failure) != 0 ||
        option_number(options, OPTION_LINK_RATE, &ring->bytes_per_s, failure) != 0 ||
        option_number(options, OPTION_LATENCY, &ring->latency_s, failure) != 0) {
        return -1;
    }
    return 0;
}

int ring_options_read_measured(const struct options *options, clattn_problem *problem, clattn_ring_options *ring,
                               double *seconds, struct failure *failure)
{
    static const enum option_id of_schedules[] = { OPTION_RANKS,     OPTION_RANK,    OPTION_FLOP_RATE,
                                                   OPTION_LINK_RATE, OPTION_LATENCY, OPTION_NONE };
    static const enum option_id of_data[] = { OPTION_MASK_KIND, OPTION_NONE };
    *seconds = SECONDS_USUAL;
    if (refuse(options, of_schedules, "mpirun says how many ranks there are, and they measure", failure) != 0 ||
        refuse(options, of_data, "ranks that mpirun started measure without masks and biases", failure) != 0 ||
        read_both(options, problem, ring, failure) != 0 ||
        option_number(options, OPTION_SECONDS, seconds, failure) != 0) {
        return -1;
    }
    if (!(*seconds >= 0 && *seconds <= SECONDS_MOST)) {
        return failure_misuse(failure, "--seconds %s: must be from 0 to %d", options->value[OPTION_SECONDS],
                              SECONDS_MOST);
    }
    if (ring->algorithm == CLATTN_RING_TREE && ring->gradients) {
        return failure_misuse(failure, "--backward: decoding (--algorithm tree) has no gradients; leave it out");
    }
    return 0;
}
