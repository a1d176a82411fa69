/* What a decoder does beside attention: norms of queries and keys, turning them by their positions (rotary embedding),
 * and writing new keys and values into a cache. What they share with clattn.h (contexts, types, plans, ownership,
 * threads, how structs grow) is said there; plans are those of clattn.h, made and enqueued by the functions here. */
#ifndef CLATTN_CACHE_H
#define CLATTN_CACHE_H

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rotary embedding ----------------------------------------------------------------------- */

/* Which columns are a pair, of the `columns` from first_column on (Su et al., "RoFormer", 2021). Never guessed: models
 * differ, and the wrong one gives text that is nearly right. */
typedef enum clattn_rotary_pairs {
    CLATTN_PAIRS_UNSET = 0,
    CLATTN_PAIRS_INTERLEAVED = 1, /* 2 i and 2 i + 1: GPT-J, llama2.c, ONNX's interleaved, Llama in GGUF files */
    CLATTN_PAIRS_HALVES = 2       /* i and i + columns / 2: GPT-NeoX, Llama and Qwen as Hugging Face has them */
} clattn_rotary_pairs;

/* Optional tensors of the problems here, beside those of clattn_feature. */
typedef enum clattn_cache_feature {
    CLATTN_WITH_POSITIONS = 1 << 16,    /* tensors.positions: where each row stands */
    CLATTN_WITH_STARTS = 1 << 17,       /* tensors.starts: row i of sequence b stands at starts[b] + i */
    CLATTN_WITH_TOKEN_TABLES = 1 << 18, /* cosine and sine have a row for each row of the tensors, by no position */
    CLATTN_WITH_SLOTS = 1 << 19,        /* of clattn_append_problem: tensors.slots */
    CLATTN_WITH_ROTARY = 1 << 20,       /* of clattn_append_problem: keys and queries are turned */
    CLATTN_WITH_NORM = 1 << 21,         /* of clattn_rotary_problem: x is normed, then turned (RMS norm, below) */
    CLATTN_WITH_QUERY_NORM = 1 << 22,   /* of clattn_append_problem: queries are normed, then turned */
    CLATTN_WITH_KEY_NORM = 1 << 23,     /* keys are: norm, turn, quantise, store */
    CLATTN_WITH_VALUE_NORM = 1 << 24,   /* values are, without weights, as Gemma 4 has it */
    CLATTN_WITH_NORM_WEIGHTS = 1 << 25  /* beside a norm of x, queries or keys: its tensor of weights is given */
} clattn_cache_feature;

/* How the angles of a model's positions grow: position p turns pair i of n / 2 by p f_i, and cosine and sine are
 * multiplied by a magnitude. f_i = base^(-2 i / n), changed so (M is original_positions): */
typedef enum clattn_rotary_scaling_kind {
    CLATTN_SCALING_NONE = 0,
    CLATTN_SCALING_LINEAR = 1,  /* f_i / factor */
    CLATTN_SCALING_NTK = 2,     /* base factor^(n / (n - 2)) in place of base */
    CLATTN_SCALING_DYNAMIC = 3, /* base (factor L / M - (factor - 1))^(n / (n - 2)), L = max(sequence_length, M) */
    CLATTN_SCALING_YARN = 4,    /* f_i (1 - r_i) + f_i / factor r_i, r_i a ramp from 0 to 1 between the pairs that turn
                                 * beta_fast and beta_slow times in M positions (Peng et al., 2023) */
    CLATTN_SCALING_LLAMA3 = 5,  /* f_i / factor for wavelengths beyond M / low_frequency_factor, f_i for those below
                                 * M / high_frequency_factor, smoothly between */
    CLATTN_SCALING_LONGROPE = 6 /* f_i / long_factor[i] where sequence_length > M, else f_i / short_factor[i] */
} clattn_rotary_scaling_kind;

/* Start from CLATTN_ROTARY_SCALING_INIT. A field that its kind has no use for is not looked at. */
typedef struct clattn_rotary_scaling {
    size_t struct_size;
    clattn_rotary_scaling_kind kind;
    int truncate;                                       /* yarn, nonzero: the ramp's ends are whole pairs */
    double base;                                        /* > 1; 10,000 unless the model says otherwise */
    double factor;                                      /* > 0 */
    int64_t original_positions;                         /* M, > 1: how long the sequences of the training were */
    int64_t sequence_length;                            /* dynamic, longrope: how long this one will be */
    double beta_fast, beta_slow;                        /* yarn */
    double low_frequency_factor, high_frequency_factor; /* llama3: the first is the lower one */
    const double *short_factor, *long_factor;           /* longrope: columns / 2 numbers each */
    double magnitude; /* 0: the kind's own. yarn: 0.1 ln(factor) + 1, longrope: sqrt(1 + ln(factor) / ln(M)), both 1
                       * where factor <= 1; others: 1 */
} clattn_rotary_scaling;

#define CLATTN_ROTARY_SCALING_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(clattn_rotary_scaling), CLATTN_SCALING_NONE, 1, 10000.0, 1.0, 0, 0, 32.0, 1.0, 1.0, 4.0, NULL, NULL,    \
            0.0                                                                                                        \
    }
CLATTN_API void clattn_rotary_scaling_init(clattn_rotary_scaling *scaling, size_t struct_size);

/* The tables that rotary and append take, dense: row r of cosine and sine, columns / 2 numbers each, is for position
 * positions[r]; `positions` NULL: for position r. In float64, rounded once at the end: no farther than one unit in the
 * last place of 1 from the truth up to positions of 1e8, where angles in float32 are useless from some thousands on.
 * `columns` is even; dynamic and ntk need 4. */
CLATTN_API clattn_status clattn_rotary_table(const clattn_rotary_scaling *scaling, int64_t columns, int64_t rows,
                                             const int64_t *positions, float *cosine, float *sine);

/* What is turned. Start from CLATTN_ROTARY_PROBLEM_INIT.
 *
 *     (a, b) becomes (a cos - b sin, a sin + b cos), other columns are copied
 *
 * where cos and sin are of the row's position and the pair's number.
 *
 * CLATTN_WITH_NORM: before that, each row of a head becomes (RMS norm: Zhang and Sennrich, 2019; Qwen3, Gemma 3)
 *
 *     y[c] = x[c] / sqrt(mean over all columns of x^2 + norm_epsilon) * norm_weight[c]
 *
 * computed in float32, in float64 where that is the type, so that no square of a 16-bit number overflows. A weight is
 * the whole factor: where a model's file has it less one (Gemma), add that. */
typedef struct clattn_rotary_problem {
    size_t struct_size;
    clattn_type type; /* of x and out */
    clattn_rotary_pairs pairs;
    int64_t batch, heads;
    int64_t query_len; /* rows of a head; of calls the most. Varlen: of the longest sequence */
    int64_t head_dim;
    int64_t first_column, columns; /* the columns that are turned, an even number; columns 0: all from the first on */
    int64_t positions;             /* rows of cosine and sine; with CLATTN_WITH_TOKEN_TABLES 0 */
    uint32_t features;             /* one of CLATTN_WITH_POSITIONS, CLATTN_WITH_STARTS and CLATTN_WITH_TOKEN_TABLES;
                                    * CLATTN_WITH_VARLEN; CLATTN_WITH_NORM, CLATTN_WITH_NORM_WEIGHTS */
    int inverse;                   /* nonzero: turns back, as gradients and shifts of a cache do */
    int strided_columns;           /* as in clattn_problem; of x, out, cosine and sine */
    const char *strategy;          /* NULL: the best */
    double norm_epsilon;           /* with CLATTN_WITH_NORM: above 0, as the model has it; else 0 */
} clattn_rotary_problem;

#define CLATTN_ROTARY_PROBLEM_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(clattn_rotary_problem), CLATTN_FLOAT32, CLATTN_PAIRS_UNSET, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0.0     \
    }
CLATTN_API void clattn_rotary_problem_init(clattn_rotary_problem *problem, size_t struct_size);

/* The values of one call of rotary or append. Start from CLATTN_CACHE_CALL_INIT. */
typedef struct clattn_cache_call {
    size_t struct_size;
    int64_t query_len; /* rows of this call, <= the problem's; -1: the problem's. Varlen: not used */
} clattn_cache_call;

#define CLATTN_CACHE_CALL_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(clattn_cache_call), -1                                                                                  \
    }
CLATTN_API void clattn_cache_call_init(clattn_cache_call *call, size_t struct_size);

/* Shapes, with strides in that order:
 *   x, out        [batch, heads, query_len, head_dim]; varlen: packed as in clattn_tensors, by cu_query
 *   cosine, sine  [1, 1, positions, columns / 2], float32 also for other types: stride[2], stride[3]. With
 *                 CLATTN_WITH_TOKEN_TABLES [batch, 1, query_len, columns / 2]: stride[0] too (ONNX's RotaryEmbedding
 *                 without position_ids)
 *   positions     [batch, 1, query_len, 1], int32: stride[0], stride[2]; varlen: packed
 *   starts        [batch], int32, dense
 *   cu_query      [batch + 1], int32, dense
 *   norm_weight   [head_dim], float32, dense, with CLATTN_WITH_NORM_WEIGHTS
 * A position outside of 0 to positions - 1: the blocking call refuses it; on a device the columns that are turned
 * become NaN, so that it shows. `out` may be x itself, else shares no memory with what is read. */
typedef struct clattn_rotary_tensors {
    size_t struct_size; /* set by CLATTN_ROTARY_TENSORS_INIT */
    clattn_tensor x, out, cosine, sine, positions, starts;
    clattn_tensor cu_query;
    clattn_tensor norm_weight;
} clattn_rotary_tensors;

typedef struct clattn_rotary_host_tensors {
    size_t struct_size; /* set by CLATTN_ROTARY_HOST_TENSORS_INIT */
    clattn_host_tensor x, out, cosine, sine, positions, starts;
    clattn_host_tensor cu_query;
    clattn_host_tensor norm_weight;
} clattn_rotary_host_tensors;

#define CLATTN_7_TENSORS_NONE                                                                                          \
    CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,                \
        CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE
#define CLATTN_ROTARY_TENSORS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(clattn_rotary_tensors), CLATTN_7_TENSORS_NONE, CLATTN_TENSOR_NONE                                       \
    }
#define CLATTN_ROTARY_HOST_TENSORS_INIT                                                                                \
    {                                                                                                                  \
        sizeof(clattn_rotary_host_tensors), CLATTN_7_TENSORS_NONE, CLATTN_TENSOR_NONE                                  \
    }
CLATTN_API void clattn_rotary_tensors_init(clattn_rotary_tensors *tensors, size_t struct_size);
CLATTN_API void clattn_rotary_host_tensors_init(clattn_rotary_host_tensors *tensors, size_t struct_size);

/* As clattn_plan_create, for clattn_enqueue_rotary; clattn_plan_explain and clattn_plan_destroy are for such plans
 * too. There is no workspace. */
CLATTN_API clattn_status clattn_rotary_plan_create(clattn_context *context, const clattn_rotary_problem *problem,
                                                   clattn_plan **plan);

/* As clattn_enqueue_forward: returns without waiting. `call` may be NULL. */
CLATTN_API clattn_status clattn_enqueue_rotary(const clattn_plan *plan, cl_command_queue queue,
                                               const clattn_cache_call *call, const clattn_rotary_tensors *tensors,
                                               cl_uint n_wait, const cl_event *wait, cl_event *done);

/* Blocking, on host memory. */
CLATTN_API clattn_status clattn_rotary_host(clattn_context *context, const clattn_rotary_problem *problem,
                                            const clattn_cache_call *call, const clattn_rotary_host_tensors *tensors);

/* Turns in float64 on the CPU, rounded once. Blocking. */
CLATTN_API clattn_status clattn_reference_rotary(const clattn_rotary_problem *problem, const clattn_cache_call *call,
                                                 const clattn_rotary_host_tensors *tensors);

/* ---- append --------------------------------------------------------------------------------- */

/* New keys and values into a cache, and queries and keys turned on the way: one command for what stands between a
 * model's projections and its attention. Start from CLATTN_APPEND_PROBLEM_INIT.
 *
 *     key      normed, where CLATTN_WITH_KEY_NORM says so, turned, where CLATTN_WITH_ROTARY does, then rounded or
 *              quantised to key_type
 *     value    normed, where CLATTN_WITH_VALUE_NORM says so, then rounded or quantised to value_type
 *     query    normed (CLATTN_WITH_QUERY_NORM) and turned, to query_out, which may be query itself
 *
 * A norm is the one of clattn_rotary_problem, over the columns of each head.
 *
 * Row i of sequence b is key j = starts[b] + i of the sequence, and goes to row r of its cache:
 *
 *     r = j; in a ring j where j < pinned, else pinned + (j - pinned) % (ring - pinned); or slots[b, i]
 *
 * Rows of one call that a ring has in one place: the last one stays. Nothing is written for rows beyond capacity,
 * rows in pages that are not there, and negative slots, and never anything outside of the cache. (The blocking calls
 * refuse starts that are negative or too large for the capacity, slots beyond the cache, and pages that are none, but
 * for -1.) Two rows with one slot: either of them. */
typedef struct clattn_append_problem {
    size_t struct_size;
    clattn_type type;          /* of query, key, value and query_out: float32, float16, bfloat16 or float64 */
    clattn_rotary_pairs pairs; /* with CLATTN_WITH_ROTARY; first_column, columns, positions, inverse too are those of
                                * clattn_rotary_problem */
    clattn_type key_type;   /* of key_cache; CLATTN_TYPE_NONE: `type`. Any but float64, which goes with itself only */
    clattn_type value_type; /* of value_cache; the same */
    int64_t batch;
    int64_t query_heads; /* 0: there are no queries to turn */
    int64_t kv_heads;
    int64_t query_len;  /* new rows of a sequence; of calls the most. Varlen: of the longest sequence */
    int64_t head_dim;   /* a multiple of clattn_type_columns of key_type; so is head_dim_v, of value_type */
    int64_t head_dim_v; /* 0: head_dim */
    int64_t capacity;   /* rows of a sequence: of its dense cache, or that its page table has entries for; slots of a
                          * pool: 0 */
    int64_t page_size, pages; /* of a pool; 0: the cache is dense */
    int64_t ring, pinned;     /* rows of a ring, <= capacity, and those at its beginning that stay; 0: none */
    int64_t first_column, columns, positions;
    int64_t key_scale_rows, key_scale_columns; /* rows, as they are stored, and columns that share a scale; 0: all.
                                                * u8 and u4: one row; mxfp8, mxfp4 and nvfp4 say both themselves: 0 */
    int64_t value_scale_rows, value_scale_columns;
    uint32_t features; /* CLATTN_WITH_STARTS or CLATTN_WITH_SLOTS; CLATTN_WITH_ROTARY, with what it needs to know where
                        * rows stand: starts, CLATTN_WITH_POSITIONS or CLATTN_WITH_TOKEN_TABLES; CLATTN_WITH_PAGES and
                        * CLATTN_WITH_PAGE_STARTS, to find rows by starts in a pool; CLATTN_WITH_VARLEN;
                        * CLATTN_WITH_KEY_SCALES and CLATTN_WITH_VALUE_SCALES, for int8, int4, e4m3, e5m2; without: 1;
                        * for u8, u4, mxfp8, mxfp4 and nvfp4, which need them: made of the values, and stored too;
                        * norms, and CLATTN_WITH_NORM_WEIGHTS for those of queries and keys */
    int inverse;
    int strided_columns;  /* as in clattn_problem */
    const char *strategy; /* NULL: the best */
    int64_t pool_pages;   /* pages of a buffer, where a pool is of several, as in clattn_problem; 0: one has them all */
    double norm_epsilon;  /* of all norms: above 0, as the model has it; without a norm 0 */
} clattn_append_problem;

#define CLATTN_APPEND_PROBLEM_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(clattn_append_problem), CLATTN_FLOAT32, CLATTN_PAIRS_UNSET, CLATTN_TYPE_NONE, CLATTN_TYPE_NONE, 1, 0,   \
            1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0.0                                      \
    }
CLATTN_API void clattn_append_problem_init(clattn_append_problem *problem, size_t struct_size);

/* Shapes, with strides in that order:
 *   query, query_out  [batch, query_heads, query_len, head_dim]; varlen: packed by cu_query, as key and value are
 *   key, value        [batch, kv_heads, query_len, head_dim], of values head_dim_v
 *   key_cache         [batch, kv_heads, capacity, head_dim], value_cache [.., head_dim_v]; of a pool [pages, kv_heads,
 *                     page_size, ..], any order of the axes by their strides. What is not written stays as it was
 *   cosine, sine, positions, starts, cu_query   as of clattn_rotary_tensors
 *   slots             [batch, 1, query_len, 1], int32: stride[0], stride[2]; varlen: packed. The row of the sequence's
 *                     dense cache, or page * page_size + row of a pool; negative: not written
 *   page_table        [batch, ceil(capacity / page_size)], int32: stride[0], stride[3]; with page_starts one line:
 *                     page n of sequence b is its element page_starts[b] + n, below page_starts[b + 1]
 *   page_starts       [batch + 1], int32, dense
 *   key_scales        [batch or pages, kv_heads, ceil(rows / key_scale_rows), ceil(head_dim / key_scale_columns)],
 *                     float32, any of them shared by a stride of 0; rows: capacity, or page_size. Read only
 *   value_scales      the same
 *   key_scales_out    in their place for types whose scales are made (clattn_quantise_row): float32, of mxfp8 and mxfp4
 *                     e8m0, of nvfp4 e4m3; those of the rows that are written are written too
 *   key_zero_points   of u8 and u4: the same shape, float32, written; key_tensor_scale of nvfp4: one float32, read.
 *                     value_scales_out, value_zero_points, value_tensor_scale: those of values
 *   query_norm_weight, key_norm_weight  [head_dim], float32, dense, with CLATTN_WITH_NORM_WEIGHTS where its norm is
 *   key_pools, value_pools  the further buffers of a pool that has several (problem.pool_pages), as in clattn_tensors;
 *                     slots and scales count its pages in all. Offsets and strides are their own;
 *                     attention on that pool asks for the strides of key_cache and value_cache
 * Offsets and strides of block types and codes of four bits count columns, in multiples of clattn_type_columns. What is
 * written shares no memory with another tensor, but query_out may be query itself.
 * No value is refused on a device: finite values that clattn_quantise and clattn_quantise_row refuse, since a scale or
 * max - min leaves its type, are stored with an infinite scale and read as NaN or infinities, so that it shows. */
typedef struct clattn_append_tensors {
    size_t struct_size; /* set by CLATTN_APPEND_TENSORS_INIT */
    clattn_tensor key, value, key_cache, value_cache;
    clattn_tensor query, query_out, cosine, sine, positions, starts;
    clattn_tensor slots, cu_query, page_table, page_starts;
    clattn_tensor key_scales, value_scales;
    clattn_tensor key_pools[3], value_pools[3];
    clattn_tensor query_norm_weight, key_norm_weight;
    clattn_tensor key_scales_out, value_scales_out;
    clattn_tensor key_zero_points, value_zero_points;
    clattn_tensor key_tensor_scale, value_tensor_scale;
} clattn_append_tensors;

typedef struct clattn_append_host_tensors {
    size_t struct_size; /* set by CLATTN_APPEND_HOST_TENSORS_INIT */
    clattn_host_tensor key, value, key_cache, value_cache;
    clattn_host_tensor query, query_out, cosine, sine, positions, starts;
    clattn_host_tensor slots, cu_query, page_table, page_starts;
    clattn_host_tensor key_scales, value_scales;
    clattn_host_tensor key_pools[3], value_pools[3];
    clattn_host_tensor query_norm_weight, key_norm_weight;
    clattn_host_tensor key_scales_out, value_scales_out;
    clattn_host_tensor key_zero_points, value_zero_points;
    clattn_host_tensor key_tensor_scale, value_tensor_scale;
} clattn_append_host_tensors;

#define CLATTN_16_TENSORS_NONE CLATTN_7_TENSORS_NONE, CLATTN_7_TENSORS_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE
#define CLATTN_APPEND_TENSORS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(clattn_append_tensors), CLATTN_16_TENSORS_NONE, CLATTN_POOLS_NONE, CLATTN_POOLS_NONE,                   \
            CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,        \
            CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE                                                 \
    }
#define CLATTN_APPEND_HOST_TENSORS_INIT                                                                                \
    {                                                                                                                  \
        sizeof(clattn_append_host_tensors), CLATTN_16_TENSORS_NONE, CLATTN_POOLS_NONE, CLATTN_POOLS_NONE,              \
            CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,        \
            CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE                                                 \
    }
CLATTN_API void clattn_append_tensors_init(clattn_append_tensors *tensors, size_t struct_size);
CLATTN_API void clattn_append_host_tensors_init(clattn_append_host_tensors *tensors, size_t struct_size);

/* As the functions of rotary. Where the device does not compute in the host's memory (clattn_forward_host tells),
 * clattn_append_host copies the whole caches, as far as their strides reach, to the device and back in each call,
 * however few rows are new: there it is for tests and small caches. A decoder keeps its cache in buffers and enqueues.
 */
CLATTN_API clattn_status clattn_append_plan_create(clattn_context *context, const clattn_append_problem *problem,
                                                   clattn_plan **plan);
CLATTN_API clattn_status clattn_enqueue_append(const clattn_plan *plan, cl_command_queue queue,
                                               const clattn_cache_call *call, const clattn_append_tensors *tensors,
                                               cl_uint n_wait, const cl_event *wait, cl_event *done);
CLATTN_API clattn_status clattn_append_host(clattn_context *context, const clattn_append_problem *problem,
                                            const clattn_cache_call *call, const clattn_append_host_tensors *tensors);
CLATTN_API clattn_status clattn_reference_append(const clattn_append_problem *problem, const clattn_cache_call *call,
                                                 const clattn_append_host_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
