/* The tensors of the forward operation, a row each, and what else a problem may ask for; C and OpenCL C both include
 * this. It is the only place that lists them: the enumeration of tensors, the checks of a call, host copies, the
 * kernels' arguments and their order, where they are (forward_places.h), flags (forward_flags.h) and the random tensors
 * of the tests are all made of these rows. A new optional tensor is its public field, a row here, in a group of its own
 * where few calls have it, and the kernels that read it.
 *
 *     T(ID, field, axes, element, access, place, asked for by)
 *
 * axes      extents of batch, head, row and column, named in src/operation/forward_rows.h
 * element   whose type: QUERY, KEY, VALUE, OUT, BIAS, WEIGHTS, SLOPE, SINK, KEY_SCALE, VALUE_SCALE have their own;
 *           FLOAT is float32, BYTE uint8, INT int32
 * access    IN or OUT
 * place     what kernels are told of it, beside its offset: COLUMNS and STRIDED the four strides (COLUMNS: the last
 *           is 1 unless the problem has strided columns), ROWS those of batch, head and row, HEADS of batch and
 *           head; DENSE none, element after element
 * asked for by  when a problem has the tensor, and it must be given, else it must not: ALWAYS; FEATURE(X, effect), by
 * CLATTN_WITH_X; FIELD(X, effect, condition on the problem p, or on its text, code); kernels see both as HAS(X).
 * SILENT_FIELD(condition) has no such name
 * effect    what the feature does to a pair of row and key; every list of features that kernels and plans ask for
 *           (CLATTN_FLAGS_*, forward_flags.h) is made of these words: BOUNDS hides the keys outside of runs, which
 *           are found without a look at each pair; HIDES hides a pair by an element of a tensor, or by a text; ADDS
 *           to a score (a bias also hides: -inf); CHANGES a score into another (as a text does); NOTHING */
#ifndef CLATTN_FORWARD_TENSORS_H
#define CLATTN_FORWARD_TENSORS_H

/* Groups of tensors. A program takes those groups of which its problem has a tensor (-D CLATTN_TAKES=...), so that the
 * others cost a call nothing: no argument, and no place in the params. Their list is below. */
#define CLATTN_TENSORS_ALWAYS(T)                                                                                       \
    T(QUERY, query, (PACKS, QUERY_HEADS, QUERY_ROWS, HEAD_DIM), QUERY, IN, COLUMNS, ALWAYS)                            \
    T(KEY, key, (FIRST_POOL, KV_HEADS, KEY_ROWS, HEAD_DIM), KEY, IN, COLUMNS, ALWAYS)                                  \
    T(VALUE, value, (FIRST_POOL, KV_HEADS, KEY_ROWS, HEAD_DIM_V), VALUE, IN, COLUMNS, ALWAYS)                          \
    T(OUT, out, (PACKS, QUERY_HEADS, QUERY_ROWS, HEAD_DIM_V), OUT, OUT, COLUMNS, ALWAYS)

#define CLATTN_TENSORS_LSE(T)                                                                                          \
    T(LSE, lse, (PACKS, QUERY_HEADS, QUERY_ROWS, ONE), FLOAT, OUT, ROWS, FEATURE(LSE, NOTHING))

#define CLATTN_TENSORS_PAIRS(T)                                                                                        \
    T(MASK, mask, (BATCH, QUERY_HEADS, QUERY_LEN, MASK_KEYS), BYTE, IN, STRIDED, FEATURE(MASK, HIDES))                 \
    T(BIAS, bias, (BATCH, QUERY_HEADS, QUERY_LEN, BIAS_KEYS), BIAS, IN, STRIDED,                                       \
      FIELD(BIAS, HIDES | ADDS, p->bias_type != CLATTN_TYPE_NONE))                                                     \
    T(WEIGHTS, weights, (BATCH, QUERY_HEADS, QUERY_LEN, KEY_LEN), WEIGHTS, OUT, STRIDED,                               \
      SILENT_FIELD(p->weights != CLATTN_WEIGHTS_NONE))                                                                 \
    T(SLOPES, slopes, (BATCH, QUERY_HEADS, ONE, ONE), SLOPE, IN, HEADS, FEATURE(SLOPES, ADDS))

#define CLATTN_TENSORS_ROWS(T)                                                                                         \
    T(SINKS, sinks, (ONE, QUERY_HEADS, ONE, ONE), SINK, IN, HEADS, FEATURE(SINKS, NOTHING))                            \
    T(KEY_LENGTHS, key_lengths, (ONE, ONE, ONE, BATCH), INT, IN, DENSE, FEATURE(KEY_LENGTHS, BOUNDS))                  \
    T(QUERY_OFFSETS, query_offsets, (ONE, ONE, ONE, BATCH), INT, IN, DENSE,                                            \
      SILENT_FIELD(p->alignment == CLATTN_ALIGN_OFFSETS))                                                              \
    T(CU_QUERY, cu_query, (ONE, ONE, ONE, SEAMS), INT, IN, DENSE, FEATURE(VARLEN, BOUNDS))                             \
    T(CU_KEY, cu_key, (ONE, ONE, ONE, SEAMS), INT, IN, DENSE,                                                          \
      SILENT_FIELD((p->features & (CLATTN_WITH_VARLEN | CLATTN_WITH_PAGES)) == CLATTN_WITH_VARLEN))

#define CLATTN_TENSORS_PAGES(T)                                                                                        \
    T(PAGE_TABLE, page_table, (TABLES, KV_HEADS, ONE, TABLE_PAGES), INT, IN, STRIDED,                                  \
      FEATURE(PAGES, BOUNDS))                                                                                         \
    T(PAGE_STARTS, page_starts, (ONE, ONE, ONE, SEAMS), INT, IN, DENSE, FEATURE(PAGE_STARTS, NOTHING))

#define CLATTN_TENSORS_RANGES(T)                                                                                       \
    T(ROW_LOW, row_low, (PACKS, QUERY_HEADS, QUERY_ROWS, ONE), INT, IN, ROWS, FEATURE(ROW_RANGES, BOUNDS))             \
    T(ROW_HIGH, row_high, (PACKS, QUERY_HEADS, QUERY_ROWS, ONE), INT, IN, ROWS,                                        \
      SILENT_FIELD((p->features & CLATTN_WITH_ROW_RANGES) != 0))

#define CLATTN_TENSORS_SCALES(T)                                                                                       \
    T(KEY_SCALES, key_scales, (KEY_PACKS, KV_HEADS, KEY_SCALE_ROWS, KEY_SCALE_COLUMNS), KEY_SCALE, IN, STRIDED,        \
      FEATURE(KEY_SCALES, NOTHING))                                                                                    \
    T(VALUE_SCALES, value_scales, (KEY_PACKS, KV_HEADS, VALUE_SCALE_ROWS, VALUE_SCALE_COLUMNS), VALUE_SCALE, IN,       \
      STRIDED, FEATURE(VALUE_SCALES, NOTHING))

#define CLATTN_TENSORS_ZEROS(T)                                                                                        \
    T(KEY_ZERO_POINTS, key_zero_points, (KEY_PACKS, KV_HEADS, KEY_SCALE_ROWS, KEY_SCALE_COLUMNS), FLOAT, IN, STRIDED,  \
      SILENT_FIELD(type_has_zero_points(p->key_type)))                                                                 \
    T(VALUE_ZERO_POINTS, value_zero_points, (KEY_PACKS, KV_HEADS, VALUE_SCALE_ROWS, VALUE_SCALE_COLUMNS), FLOAT, IN,   \
      STRIDED, SILENT_FIELD(type_has_zero_points(p->value_type)))                                                      \
    T(KEY_TENSOR_SCALE, key_tensor_scale, (ONE, ONE, ONE, ONE), FLOAT, IN, DENSE,                                      \
      SILENT_FIELD(type_has_tensor_scale(p->key_type)))                                                                \
    T(VALUE_TENSOR_SCALE, value_tensor_scale, (ONE, ONE, ONE, ONE), FLOAT, IN, DENSE,                                  \
      SILENT_FIELD(type_has_tensor_scale(p->value_type)))

#define CLATTN_TENSORS_BLOCKS(T)                                                                                       \
    T(BLOCK_MASK, block_mask, (BATCH, QUERY_HEADS, BLOCK_MASK_ROWS, BLOCK_MASK_KEYS), BYTE, IN, STRIDED,               \
      FEATURE(BLOCK_MASK, BOUNDS))

#define CLATTN_TENSORS_LISTS(T)                                                                                        \
    T(KEY_LISTS, key_lists, (BATCH, KV_HEADS, KEY_LIST_BLOCKS, KEY_LIST_KEYS), INT, IN, STRIDED,                       \
      FEATURE(KEY_LISTS, BOUNDS))

/* Tensors that every strategy of attention, and of its gradients, knows: its kernels read them, or it declines them in
 * a sentence of its own. */
#define CLATTN_TENSORS_OF_ALL(T)                                                                                       \
    CLATTN_TENSORS_ALWAYS(T) CLATTN_TENSORS_LSE(T) CLATTN_TENSORS_PAIRS(T) CLATTN_TENSORS_ROWS(T)                      \
    CLATTN_TENSORS_PAGES(T) CLATTN_TENSORS_RANGES(T) CLATTN_TENSORS_SCALES(T) CLATTN_TENSORS_ZEROS(T)                  \
    CLATTN_TENSORS_BLOCKS(T)

/* Here a new group begins: a strategy declines its flag until the strategy's `knows` (src/plan/strategy.h) has it. When
 * all have, the group moves up. */
#define CLATTN_TENSORS_OF_SOME(T) CLATTN_TENSORS_LISTS(T)

#define CLATTN_FORWARD_TENSORS(T) CLATTN_TENSORS_OF_ALL(T) CLATTN_TENSORS_OF_SOME(T)

/* The groups that a program may do without, a bit of -D CLATTN_TAKES each (all where it is not said, and in C), and
 * whether the program takes them, which only #if can tell.
 *
 *     G(name, T) */
#define CLATTN_TENSOR_GROUPS(G, T)                                                                                     \
    G(LSE, T) G(PAIRS, T) G(ROWS, T) G(PAGES, T) G(RANGES, T) G(SCALES, T) G(ZEROS, T) G(BLOCKS, T) G(LISTS, T)
#define CLATTN_TAKES_LSE 1
#define CLATTN_TAKES_PAIRS 2
#define CLATTN_TAKES_ROWS 4
#define CLATTN_TAKES_PAGES 8
#define CLATTN_TAKES_RANGES 16
#define CLATTN_TAKES_SCALES 32
#define CLATTN_TAKES_ZEROS 64
#define CLATTN_TAKES_BLOCKS 128
#define CLATTN_TAKES_LISTS 256
#define CLATTN_TAKES_ALL 511

#ifndef CLATTN_TAKES
#define CLATTN_TAKES CLATTN_TAKES_ALL
#endif
#if CLATTN_TAKES & CLATTN_TAKES_LSE
#define CLATTN_IS_TAKEN_LSE 1
#else
#define CLATTN_IS_TAKEN_LSE 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_PAIRS
#define CLATTN_IS_TAKEN_PAIRS 1
#else
#define CLATTN_IS_TAKEN_PAIRS 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_ROWS
#define CLATTN_IS_TAKEN_ROWS 1
#else
#define CLATTN_IS_TAKEN_ROWS 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_PAGES
#define CLATTN_IS_TAKEN_PAGES 1
#else
#define CLATTN_IS_TAKEN_PAGES 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_RANGES
#define CLATTN_IS_TAKEN_RANGES 1
#else
#define CLATTN_IS_TAKEN_RANGES 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_SCALES
#define CLATTN_IS_TAKEN_SCALES 1
#else
#define CLATTN_IS_TAKEN_SCALES 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_ZEROS
#define CLATTN_IS_TAKEN_ZEROS 1
#else
#define CLATTN_IS_TAKEN_ZEROS 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_BLOCKS
#define CLATTN_IS_TAKEN_BLOCKS 1
#else
#define CLATTN_IS_TAKEN_BLOCKS 0
#endif
#if CLATTN_TAKES & CLATTN_TAKES_LISTS
#define CLATTN_IS_TAKEN_LISTS 1
#else
#define CLATTN_IS_TAKEN_LISTS 0
#endif

/* What a problem asks for without a tensor, in the words of the rows' last column: of all, and of some. */
#define CLATTN_FIELDS_OF_ALL(FIELD)                                                                                   \
    FIELD(CAUSAL, BOUNDS, p->causal)                                                                                  \
    FIELD(WINDOW, BOUNDS, p->window_left >= 0 || p->window_right >= 0)                                                \
    FIELD(MASK_BITS, NOTHING, p->mask_bits)                                                                           \
    FIELD(SOFTCAP, CHANGES, p->softcap > 0)                                                                           \
    FIELD(DROPOUT, NOTHING, p->dropout > 0)                                                                           \
    FIELD(RING, BOUNDS, forward_ring_turns(p))                                                                        \
    FIELD(SCORE_TEXT, HIDES | CHANGES, user_code_has(code, CLATTN_CODE_SCORE))                                        \
    FIELD(MASK_TEXT, HIDES, user_code_has(code, CLATTN_CODE_MASK))
#define CLATTN_FIELDS_OF_SOME(FIELD) FIELD(POOLS, NOTHING, pools_of(p) > 1)

/* The tensors that a text of the user's own loads (user/code.clh): arguments of programs that have one.
 *
 *     T(number) */
#define CLATTN_CODE_TENSORS(T) T(0) T(1) T(2) T(3) T(4) T(5) T(6) T(7)

/* The further buffers of a pool, whose strides are those of KEY and VALUE. They are arguments of programs that are
 * built for several (-D POOLS), behind the others.
 *
 *     T(ID, name, field, axes, element, pool) */
#define CLATTN_POOL_TENSORS(T)                                                                                        \
    T(KEY_POOL_1, key_pool_1, key_pools[0], (POOL_1, KV_HEADS, KEY_ROWS, HEAD_DIM), KEY, 1)                           \
    T(KEY_POOL_2, key_pool_2, key_pools[1], (POOL_2, KV_HEADS, KEY_ROWS, HEAD_DIM), KEY, 2)                           \
    T(KEY_POOL_3, key_pool_3, key_pools[2], (POOL_3, KV_HEADS, KEY_ROWS, HEAD_DIM), KEY, 3)                           \
    T(VALUE_POOL_1, value_pool_1, value_pools[0], (POOL_1, KV_HEADS, KEY_ROWS, HEAD_DIM_V), VALUE, 1)                 \
    T(VALUE_POOL_2, value_pool_2, value_pools[1], (POOL_2, KV_HEADS, KEY_ROWS, HEAD_DIM_V), VALUE, 2)                 \
    T(VALUE_POOL_3, value_pool_3, value_pools[2], (POOL_3, KV_HEADS, KEY_ROWS, HEAD_DIM_V), VALUE, 3)

#endif
