/* clattn ring: what each rank of a ring has, computes and sends (clattn_ring.h), without a device or a network. Where
 * mpirun started it, it becomes the program of ranks/ring_ranks.c, which computes. */
#include <stdio.h>
#include <stdlib.h>

#include "child.h"
#include "clattn_ring.h"
#include "commands.h"
#include "document.h"
#include "insides.h"
#include "library.h"
#include "ring_options.h"
#include "ring_share.h"

#define RANKS_SHOWN 32 /* of the table: more are told as JSON */

static const char *const content_names[CLATTN_RING_CONTENTS] = { "", "keys", "queries", "results",
                                                                 "gradients of keys" };

/* ---- telling ---- */

/* "1.2 M", 6 characters at most. */
static const char *amount(double value, char text[16])
{
    static const char units[] = " kMGTPE";
    int unit = 0;
    for (; value >= 999.5 && unit < 6; unit++) {
        value /= 1000;
    }
    snprintf(text, 16, value < 9.95 && unit > 0 ? "%.1f %c" : "%.0f %c", value, units[unit]);
    return text;
}

static void print_share(int64_t rank, const struct ring_share *share, double mean)
{
    char pairs[16], bytes[16];
    printf("%6lld %10lld %10lld %7lld %8s %7.1f %% %7lld %7sB\n", (long long)rank, (long long)share->rows,
           (long long)share->keys, (long long)share->calls, amount(share->pairs, pairs),
           mean > 0 ? 100 * share->pairs / mean : 100, (long long)share->sends, amount(share->sent_bytes, bytes));
}

static void print_table(const struct ring_share *shares, int64_t ranks, double mean)
{
    printf("\n%6s %10s %10s %7s %8s %9s %7s %8s\n", "rank", "rows", "keys", "calls", "pairs", "of mean", "sends",
           "bytes");
    for (int64_t rank = 0; rank < ranks; rank++) {
        if (ranks > RANKS_SHOWN && rank == RANKS_SHOWN / 2) {
            rank = ranks - RANKS_SHOWN / 2;
            printf("%6s\n", "...");
        }
        print_share(rank, &shares[rank], mean);
    }
}

static void print_piece(const char *what, const clattn_ring_piece *piece)
{
    printf("%s ", what);
    if (piece->count == 0) {
        printf("none");
    } else if (piece->count == 1) {
        printf("%lld", (long long)piece->first);
    } else if (piece->step == 1) {
        printf("%lld-%lld", (long long)piece->first, (long long)(piece->first + piece->count - 1));
    } else {
        printf("%lld, %lld, .. %lld", (long long)piece->first, (long long)(piece->first + piece->step),
               (long long)(piece->first + (piece->count - 1) * piece->step));
    }
}

static void print_message(const clattn_ring *ring, const clattn_ring_message *message)
{
    static const char *const when[] = { "", ", once computed", ", until the end" };
    char bytes[16];
    printf("      %s %s", message->is_send ? "sends" : "takes", content_names[message->content]);
    if (message->shard >= 0) {
        printf(" of rank %lld", (long long)message->shard);
    }
    printf(" %s %lld: %sB%s\n", message->is_send ? "to" : "from", (long long)message->peer,
           amount(ring_bytes(ring, message), bytes), when[message->when]);
}

static void print_steps(const clattn_ring *ring)
{
    clattn_ring_step step;
    printf("\nrank %lld, step by step:\n", (long long)ring->options.rank);
    for (int64_t n = 0; n < clattn_ring_steps(ring) && clattn_ring_step_at(ring, n, &step) == CLATTN_OK; n++) {
        printf("%4lld\n", (long long)n);
        for (int64_t i = 0; i < step.messages; i++) {
            print_message(ring, &step.message[i]);
        }
        for (int64_t i = 0; i < step.tasks; i++) {
            char pairs[16];
            print_piece("      computes rows", &step.task[i].rows);
            print_piece(" on keys", &step.task[i].keys);
            printf(": %s pairs\n", amount(ring_pairs(ring, &step.task[i]), pairs));
        }
    }
}

static void print_text(const struct options *options, const clattn_ring *ring, const struct ring_share *shares,
                       double mean, double most)
{
    fputs(clattn_ring_explain(ring), stdout);
    print_table(shares, ring->options.ranks, mean);
    printf("\nbalance: the rank with most to compute has %.2f times the mean\n", mean > 0 ? most / mean : 1);
    if (options->value[OPTION_RANK]) {
        print_steps(ring);
    }
}

static cJSON *share_document(const struct ring_share *share)
{
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "rows", (double)share->rows);
    cJSON_AddNumberToObject(one, "keys", (double)share->keys);
    cJSON_AddNumberToObject(one, "calls", (double)share->calls);
    cJSON_AddNumberToObject(one, "pairs", share->pairs);
    cJSON_AddNumberToObject(one, "sends", (double)share->sends);
    cJSON_AddNumberToObject(one, "sent_bytes", share->sent_bytes);
    return one;
}

static cJSON *piece_document(const clattn_ring_piece *piece)
{
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "first", (double)piece->first);
    cJSON_AddNumberToObject(one, "step", (double)piece->step);
    cJSON_AddNumberToObject(one, "count", (double)piece->count);
    return one;
}

static cJSON *message_document(const clattn_ring *ring, const clattn_ring_message *message)
{
    cJSON *one = cJSON_CreateObject();
    cJSON_AddBoolToObject(one, "is_send", message->is_send);
    cJSON_AddStringToObject(one, "content", content_names[message->content]);
    cJSON_AddNumberToObject(one, "shard", (double)message->shard);
    cJSON_AddNumberToObject(one, "peer", (double)message->peer);
    cJSON_AddNumberToObject(one, "bytes", ring_bytes(ring, message));
    return one;
}

static cJSON *step_document(const clattn_ring *ring, const clattn_ring_step *step)
{
    cJSON *one = cJSON_CreateObject();
    cJSON *messages = cJSON_AddArrayToObject(one, "messages"), *tasks = cJSON_AddArrayToObject(one, "tasks");
    for (int64_t i = 0; i < step->messages; i++) {
        cJSON_AddItemToArray(messages, message_document(ring, &step->message[i]));
    }
    for (int64_t i = 0; i < step->tasks; i++) {
        cJSON *task = cJSON_CreateObject();
        cJSON_AddItemToObject(task, "rows", piece_document(&step->task[i].rows));
        cJSON_AddItemToObject(task, "keys", piece_document(&step->task[i].keys));
        cJSON_AddNumberToObject(task, "pairs", ring_pairs(ring, &step->task[i]));
        cJSON_AddItemToArray(tasks, task);
    }
    return one;
}

/* What print_steps tells. */
static void add_steps(cJSON *document, const clattn_ring *ring)
{
    cJSON *steps = cJSON_AddArrayToObject(document, "steps");
    clattn_ring_step step;
    for (int64_t n = 0; n < clattn_ring_steps(ring) && clattn_ring_step_at(ring, n, &step) == CLATTN_OK; n++) {
        cJSON_AddItemToArray(steps, step_document(ring, &step));
    }
}

static int print_json(const struct options *options, const clattn_ring *ring, const struct ring_share *shares,
                      double mean, double most, struct failure *failure)
{
    cJSON *document = document_begin("ring", NULL);
    cJSON *ranks = cJSON_AddArrayToObject(document, "ranks");
    for (int64_t rank = 0; rank < ring->options.ranks; rank++) {
        cJSON_AddItemToArray(ranks, share_document(&shares[rank]));
    }
    cJSON_AddNumberToObject(document, "balance", mean > 0 ? most / mean : 1);
    document_add_lines(document, "explanation", clattn_ring_explain(ring));
    if (options->value[OPTION_RANK]) {
        add_steps(document, ring);
    }
    return document_print(document, failure);
}

/* ---- running ---- */

/* Every rank's schedule, one after the other; that of the rank which is asked for stays. */
static int find_shares(const struct options *options, const clattn_problem *problem, const clattn_ring_options *o,
                       struct ring_share *shares, clattn_ring **kept, struct failure *failure)
{
    for (int64_t rank = 0; rank < o->ranks; rank++) {
        clattn_ring_options of_rank = *o;
        clattn_ring *ring;
        of_rank.rank = rank;
        const clattn_status status = clattn_ring_create(problem, &of_rank, &ring);
        if (status != CLATTN_OK) {
            return status == CLATTN_UNSUPPORTED ? failure_misuse(failure, "%s", clattn_last_error())
                                                : library_failure(options, status, failure);
        }
        shares[rank] = ring_share_of(ring);
        if (rank == o->rank) {
            *kept = ring;
        } else {
            clattn_ring_destroy(ring);
        }
    }
    return 0;
}

/* Open MPI, MPICH and those made of it, and launchers that speak PMIx. */
static int is_started_by_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
}

/* What all ranks would say alike is looked at before. */
static int become_rank(const struct options *options, struct failure *failure)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_ring_options o = CLATTN_RING_OPTIONS_INIT;
    double seconds;
    if (ring_options_read_measured(options, &problem, &o, &seconds, failure) != 0) {
        return -1;
    }
    return child_become("clattn-ring", "ring", options->words, failure);
}

static int run(const struct options *options, struct failure *failure)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_ring_options o = CLATTN_RING_OPTIONS_INIT;
    clattn_ring *ring = NULL;
    double sum = 0, most = 0;
    if (is_started_by_mpi()) {
        return become_rank(options, failure);
    }
    if (ring_options_read(options, &problem, &o, failure) != 0) {
        return -1;
    }
    struct ring_share *shares = calloc((size_t)o.ranks, sizeof *shares);
    if (!shares) {
        return failure_failed(failure, "out of memory for %lld ranks", (long long)o.ranks);
    }
    int result = find_shares(options, &problem, &o, shares, &ring, failure);
    for (int64_t rank = 0; rank < o.ranks; rank++) {
        sum += shares[rank].pairs;
        most = shares[rank].pairs > most ? shares[rank].pairs : most;
    }
    const double mean = sum / (double)o.ranks;
    if (result == 0 && options->value[OPTION_JSON]) {
        result = print_json(options, ring, shares, mean, most, failure);
    } else if (result == 0) {
        print_text(options, ring, shares, mean, most);
    }
    clattn_ring_destroy(ring);
    free(shares);
    return result;
}

static const struct option_group groups[] = {
    { "The problem, of all ranks together",
      { OPTION_SHAPE, OPTION_TYPE, OPTION_CAUSAL, OPTION_ALIGN, OPTION_WINDOW, OPTION_ALWAYS, OPTION_MASK_KIND,
        OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_SINKS } },
    { "The ranks",
      { OPTION_RANKS, OPTION_RING_LAYOUT, OPTION_ALGORITHM, OPTION_EXPLAIN_BACKWARD, OPTION_FLOP_RATE, OPTION_LINK_RATE,
        OPTION_LATENCY } },
    { "Under mpirun", { OPTION_DEVICE, OPTION_SECONDS } },
    { "What is told", { OPTION_RANK, OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_ring = {
    "ring",
    "Tells of attention whose rows and keys lie on several ranks what each of them has, computes and sends: the "
    "schedule "
    "that programs play by clattn_ring.h or MPI. Needs no device. Started by mpirun, it plays it: measures "
    "libclattn_mpi's calls on these ranks, each with a device, and compares some rows and keys of each rank with the "
    "float64 reference.",
    "--shape B,HQ,HKV,LQ,LK,D[,DV] [OPTION]...",
    NULL,
    groups,
    "Examples:\n  clattn ring --shape 1,32,8,65536,65536,128 --causal top-left --layout zigzag --rank 0\n"
    "  mpirun -n 4 clattn ring --shape 1,8,8,8192,8192,64 --causal top-left --layout zigzag --backward\n",
    run,
};
