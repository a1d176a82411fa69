/* Every option of every command, one line each: id, name, what its value is called (NULL: a switch), help. A CHOICE
 * has a list of words more: its values, or those of them that have names (shells complete with them). A command lists
 * the ids that it takes; an option of another command is an error there. Included by options.h and options.c, which
 * define OPTION, and may define CHOICE. */
#ifndef CHOICE
#define CHOICE(id, name, value, words, help) OPTION(id, name, value, help)
#endif
#define NUMBER_TYPES "f32", "f16", "bf16", "f64"
#define CODE_TYPES                                                                                                     \
    "int8", "e4m3", "e5m2", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "mxfp4_ggml", "nvfp4_ggml", "int4", "u8", "u4",    \
        "mxfp8", "mxfp4", "nvfp4"
#define CODE_TYPES_TEXT                                                                                                \
    "int8, e4m3, e5m2, int4, u8, u4, mxfp8, mxfp4, nvfp4, q8_0, q4_0, q4_1, q5_0, q5_1, mxfp4_ggml or nvfp4_ggml"
#define ALIGNMENTS "top-left", "bottom-right"

/* input */
OPTION(Q, "q", "FILE", "queries, an .npy file; with --k and --v, instead of INPUT")
OPTION(K, "k", "FILE", "keys")
OPTION(V, "v", "FILE", "values")
OPTION(PAST_KEY, "past-key", "FILE", "cached keys, put before the keys")
OPTION(PAST_VALUE, "past-value", "FILE", "cached values, put before the values")
CHOICE(LAYOUT, "layout", "LAYOUT", WORDS("bhsd", "bshd", "bs(hd)", "thd", "bsh"),
       "axes of q, k, v: bhsd (default), bshd, bs(hd) or bsh, thd (packed sequences); "
       "axes before these count as batch")
OPTION(HEADS, "heads", "N", "query heads, of layout bs(hd) or of a whole layer")
OPTION(KV_HEADS, "kv-heads", "N", "key and value heads; default: as --heads")
CHOICE(DTYPE, "dtype", "TYPE", WORDS(NUMBER_TYPES),
       "f32, f16, bf16 or f64, or float32, ..; inputs are converted; default: as they are")
OPTION(CU_Q, "cu-q", "FILE|LIST", "layout thd: where each sequence of queries starts, and the end")
OPTION(CU_K, "cu-k", "FILE|LIST", "layout thd: the same for keys; default: as --cu-q")

/* caches */
OPTION(PAGE_TABLE, "page-table", "FILE",
       "keys and values lie in pages: which, of each sequence; [batch, pages] or [batch, key heads, pages], -1: a hole")
OPTION(PAGE_STARTS, "page-starts", "FILE|LIST", "the table is one line: where each sequence's pages start, and the end")
CHOICE(POOL, "pool", "LAYOUT", WORDS("nhd", "hnd"), "axes of pages: nhd (default): [pages, tokens, heads, dim], or hnd")
CHOICE(STORED_KEYS, "key-type", "T", WORDS(NUMBER_TYPES, CODE_TYPES),
       "keys are stored as f32, .., f64, " CODE_TYPES_TEXT "; a file of bytes needs it")
CHOICE(STORED_VALUES, "value-type", "T", WORDS(NUMBER_TYPES, CODE_TYPES), "the same of values")
OPTION(VALUES_IN_KEYS, "value-in-key", "DV", "values are the first DV columns of keys, as in latent attention: no v")
OPTION(KEY_SCALES, "key-scales", "FILE",
       "of codes but those of blocks: [batch or pages, heads, rows, columns], an axis of 1 for all; of mxfp8, mxfp4 "
       "and nvfp4 bytes")
OPTION(VALUE_SCALES, "value-scales", "FILE", "the same of values")
OPTION(KEY_GROUP, "key-scale-group", "ROWS,COLUMNS", "so many share a scale; 0: all. Default: all where the axis is 1")
OPTION(VALUE_GROUP, "value-scale-group", "ROWS,COLUMNS", "the same of values")
OPTION(KEY_ZERO_POINTS, "key-zero-points", "FILE", "of u8, u4: in the shape of their scales")
OPTION(VALUE_ZERO_POINTS, "value-zero-points", "FILE", "the same of values")
OPTION(KEY_TENSOR_SCALE, "key-tensor-scale", "FILE|X", "of nvfp4: a number that multiplies every scale")
OPTION(VALUE_TENSOR_SCALE, "value-tensor-scale", "FILE|X", "the same of values")
OPTION(ROW_LOW, "row-low", "FILE",
       "row i sees keys row_low[i] <= j < row_high[i]; int32, [queries] or [batch, heads, queries]")
OPTION(ROW_HIGH, "row-high", "FILE", "the end of these")
OPTION(KEY_LISTS, "key-lists", "FILE",
       "numbers of the keys that rows see; int32, [batch, key heads, lists, keys of a list], -1 ends one")
OPTION(LIST_ROWS, "list-rows", "N", "so many neighbouring rows share a list; default: 1")

/* gradients */
OPTION(DOUT, "dout", "FILE", "a loss's derivative at out, in the layout of out")
OPTION(DLSE, "dlse", "FILE", "its derivative at lse; default: 0")
OPTION(FORWARD_OUT, "out", "FILE", "out of the forward pass, with --lse; default: both are computed")
OPTION(FORWARD_LSE, "lse", "FILE", "lse of the forward pass: of more keys than these too, as in a ring of devices")
OPTION(GRADIENTS, "of", "LIST",
       "of q, k, v, bias, slopes, sinks, scale; default: q, k, v, and of the next three what is there")
CHOICE(GRADIENT_TYPE, "gradient-dtype", "TYPE", WORDS("f32"), "f32: of 16-bit inputs too; default: as what they are of")
OPTION(GRADIENTS_FILE, "output", "FILE", "write the gradients: .safetensors, or .npy for one alone; -: stdout")

/* a problem without data */
OPTION(SHAPE, "shape", "SHAPE", "B,HQ,HKV,LQ,LK,D[,DV]: batch, query heads, key heads, lengths, head dims")
CHOICE(TYPE, "dtype", "TYPE", WORDS(NUMBER_TYPES), "f32 (default), f16, bf16 or f64; float32, .. are the same")

/* what may be seen */
CHOICE(CAUSAL, "causal", "MODE", WORDS("none", ALIGNMENTS, "offsets"),
       "none (default), top-left, bottom-right or an offset: key j is visible to query i if j <= i + "
       "offset; a list gives each batch entry its own")
CHOICE(ALIGN, "align", "MODE", WORDS(ALIGNMENTS, "offsets"),
       "the same offset for --window and --alibi without --causal")
OPTION(WINDOW, "window", "LEFT,RIGHT", "visible keys before and after a query's own position; -1: all")
OPTION(ALWAYS, "always", "N", "the first N keys are visible outside the window too")
OPTION(KEY_LENGTHS, "key-lengths", "FILE|LIST", "valid keys of each batch entry, such as 10,5")
OPTION(MASK_FILE, "mask", "FILE", "bool or uint8: 1 may be seen; uint32: a bit a key; float: added to the scores")
OPTION(MASK_FIRST_KEY, "mask-first-key", "N", "mask and bias are of the keys from N on; default: 0")
OPTION(BIAS_FILE, "bias", "FILE", "float, added to the scores; beside a bool mask")

/* problems without data name kinds instead of files */
CHOICE(MASK_KIND, "mask", "KIND", WORDS("none", "bool", "float"), "none (default), bool, or float: added to the scores")
OPTION(WITH_KEY_LENGTHS, "key-lengths", NULL, "batch entries have key lengths")
OPTION(PAGE_SIZE, "page-size", "KEYS", "keys and values lie in pages of so many keys; batch entries have key lengths")
OPTION(POOLS, "pools", "N",
       "the pages lie in N buffers, 1 to 4; default: of bench one, of others as many as the device needs")
CHOICE(KEY_TYPE, "key-type", "T", WORDS(NUMBER_TYPES, CODE_TYPES), "keys are stored as f32, .., f64, " CODE_TYPES_TEXT)
CHOICE(VALUE_TYPE, "value-type", "T", WORDS(NUMBER_TYPES, CODE_TYPES),
       "the same of values; where one is not given, it is --dtype")
OPTION(RING, "ring", "ROWS", "the last ROWS keys are kept, of which --always N stay; needs --window LEFT,..")
OPTION(VALUE_IN_KEY, "value-in-key", NULL, "values are the first DV columns of keys, as in latent attention")
OPTION(WITH_ALIBI, "alibi", NULL, "ALiBi slopes")
OPTION(WITH_SINKS, "sinks", NULL, "sink logits")
OPTION(WITH_VARLEN, "varlen", NULL, "packed sequences: B of them, LQ and LK the longest")
OPTION(WITH_LSE, "lse", NULL, "the logarithm of the softmax sum is an output")
CHOICE(WITH_WEIGHTS, "weights", "MODE", WORDS("scores", "softcap", "logits", "softmax"),
       "scores, softcap, logits or softmax are an output")

/* the scores */
OPTION(SCALE, "scale", "X", "default: 1/sqrt(head dim)")
OPTION(SOFTCAP, "softcap", "X", "s = X tanh(s / X)")
CHOICE(ALIBI, "alibi", "FILE|standard", WORDS("standard"),
       "minus slope times distance; slopes [heads] or [batch, heads]")
OPTION(SINKS, "sinks", "FILE", "one more logit for each head, without a value; [heads]")
OPTION(SCORE, "score", "FILE",
       "a score or a mask of your own: OpenCL C with clattn_score, clattn_mask or both, as clattn_code.h has them")
OPTION(SCORE_TEXT, "score-text", "TEXT", "a score as an expression of s, b, h, i, j: 's + LOAD(table, j - i + 63)'")
OPTION(MASK_TEXT, "mask-text", "TEXT", "a mask as one: 'j <= POSITION(i)'")
OPTION(SLOPE_TEXT, "slope-text", "TEXT", "the derivative of the score with respect to s, for gradients")
OPTION(BLOCKS, "blocks", "ROWS,KEYS",
       "the mask text is asked of all pairs first, and blocks of so many rows and keys that it leaves empty are "
       "skipped")
OPTION(TEXT_INPUTS, "inputs", "NAME=VALUE,..",
       "what texts take by LOAD and SCALAR and INPUT has not: .npy files, numbers")

/* how */
CHOICE(DEVICE, "device", "NAME", WORDS("gpu", "cpu", "accelerator"),
       "gpu, cpu, accelerator, PLATFORM:DEVICE, part of a name; default: CLATTN_DEVICE, else the best; run, explain, "
       "bench, tune take several too, with + between them")
CHOICE(STRATEGY, "strategy", "NAME", NULL, "take this one; `clattn explain` names them")
CHOICE(MATMUL, "matmul", "NAME", WORDS("auto", "clblast", "tiles"),
       "auto (default), clblast or tiles, for strategy staged")
OPTION(TF32, "tf32", NULL, "float32 numbers may be rounded to tf32 for a matrix unit")
OPTION(ROUNDED_WEIGHTS, "rounded-weights", NULL,
       "a matrix unit may round weights to 16 bits, where the type has as many")

/* results */
OPTION(OUTPUT, "output", "FILE", "write the output; .npy or .safetensors, as for the next two; -: .npy to stdout")
OPTION(WEIGHTS, "weights", "FILE", "write the attention weights")
CHOICE(WEIGHTS_MODE, "weights-mode", "MODE", WORDS("scores", "softcap", "logits", "softmax"),
       "instead of softmax: scores, softcap or logits (after masks)")
OPTION(LSE, "lse", "FILE", "write the logarithm of each row's softmax sum")
OPTION(KEY_SUMS, "key-sums", "FILE", "write the sum of the weights that each key gets")
OPTION(KEY_SUM_ROWS, "key-sum-rows", "N", "over the last N rows of each sequence; default: over all")
OPTION(MAX_LOGIT, "max-logit", "FILE", "write the largest logit of each head, as softmax sees it")
OPTION(CHECK, "check", NULL, "compare with the float64 reference, and with the outputs that INPUT holds")
OPTION(TOLERANCE, "tolerance", "X",
       "largest difference from the outputs that INPUT holds; default: 2e-6 for f32 (gradients: "
       "1e-5), times the largest value where that is above 1")

/* pictures */
OPTION(SHOW, "show", NULL, "draw the attention weights in the terminal")
OPTION(PLOT, "plot", "FILE", "draw them as a picture, .png or .svg")
OPTION(LAYER, "layer", "N", "which batch entry (layer, sentence) to draw; default 0")
OPTION(HEAD, "head", "N", "which head to draw; default: the average of all")

/* bench */
OPTION(SHAPES, "shapes", "FILE", "lines of NAME B HQ HKV LQ LK D DV CAUSAL MASK; default: built in")
OPTION(SECONDS, "seconds", "S", "measure each shape for so long, and 3 calls at least; default 0.5")
OPTION(BACKWARD, "backward", NULL,
       "forward and backward pass together, and the backward pass alone; --strategy is the latter's")
OPTION(EXPLAIN_BACKWARD, "backward", NULL, "of the gradients of query, key and value")
OPTION(READ, "read", NULL, "in turns with a kernel that only reads the keys and values: its time and speed too")
OPTION(BENCH_KEY_SUMS, "key-sums", "N",
       "after each call the sums of its weights over the last N rows, 0: all: their time too")
OPTION(KERNELS, "kernels", NULL, "and what each kernel of a call takes, on a queue that profiles")
OPTION(TSV, "tsv", NULL, "tab-separated: a header line, then a line a shape")
CHOICE(BENCH_CAUSAL, "causal", "MODE", WORDS("none", ALIGNMENTS), "none (default), top-left or bottom-right")
CHOICE(BENCH_ALIGN, "align", "MODE", WORDS(ALIGNMENTS),
       "top-left or bottom-right, for --window and --alibi where nothing is causal")
OPTION(BENCH_KEY_LENGTHS, "key-lengths", NULL, "batch entries have key lengths: even steps, up to LK in the last one")

/* ring */
OPTION(RANKS, "ranks", "N", "ranks, each with a part of the rows and keys; default 4")
OPTION(RANK, "rank", "N", "tell what rank N does, step by step")
CHOICE(RING_LAYOUT, "layout", "LAYOUT", WORDS("contiguous", "zigzag", "striped"),
       "contiguous (default), zigzag or striped: which rows and keys a rank has")
CHOICE(ALGORITHM, "algorithm", "NAME", WORDS("auto", "keys", "queries", "tree", "heads"),
       "auto (default: what is estimated to be fastest), keys, queries, tree or heads")
OPTION(FLOP_RATE, "flop-per-s", "X", "of a rank, for the estimates; default 1e11")
OPTION(LINK_RATE, "bytes-per-s", "X", "of a link; default 1.25e9, which is 10 Gbit/s")
OPTION(LATENCY, "latency-s", "X", "of a message; default 5e-5")

/* layers and lessons */
CHOICE(PROJECTION, "projection", "NAME", WORDS("auto", "lanes", "tiles", "clblast"),
       "what multiplies by weights: auto (default), lanes, tiles or clblast")
OPTION(AVERAGE, "average", NULL, "the weights' average over the heads instead of each head's")
OPTION(ALL, "all", NULL, "every lesson, as pictures and a page in the folder that --output names")
OPTION(COURSE, "output", "DIR", "folder for --all; is made where it is missing")
OPTION(SEED, "seed", "N", "of the random numbers; default 1")
OPTION(DATA, "data", "FILE",
       "layer of the lessons row, gradient and money-bank-grows; default: the one that comes with clattn")
OPTION(LESSON_PLOT, "plot", "FILE", "draw the lesson's picture, .png or .svg")

OPTION(BINARIES, "output", "DIR", "folder for the compiled programs; is made where it is missing")

/* quantise */
CHOICE(CODE_TYPE, "type", "T", WORDS(CODE_TYPES), CODE_TYPES_TEXT)
OPTION(CODES, "output", "FILE", "write the codes, or the numbers; .npy, -: stdout")
OPTION(BACK, "back", NULL, "from codes to numbers")
OPTION(SCALES, "scales", "FILE",
       "of int8, e4m3, e5m2, int4, default: the smallest by which no number is beyond the codes; of u8, u4, mxfp8, "
       "mxfp4, nvfp4, default: made of each row")
OPTION(ZERO_POINTS, "zero-points", "FILE", "of u8, u4, beside --scales")
OPTION(TENSOR_SCALE, "tensor-scale", "X", "of nvfp4: multiplies every scale; default: 1")
OPTION(SCALES_FILE, "scales-output", "FILE", "write the scales; of mxfp8, mxfp4, nvfp4 bytes")
OPTION(ZERO_POINTS_FILE, "zero-points-output", "FILE", "write the zero points of u8, u4")
OPTION(SCALE_GROUP, "scale-group", "ROWS,COLUMNS",
       "so many of the last two axes share a scale, 0: all; default: 1,0; of mxfp8, mxfp4, nvfp4 their type says it")

/* tune */
OPTION(TIME, "time", "S", "end after so many seconds, which shapes have one after another; default 60")
OPTION(BITS, "bits", NULL, "choose strategies too: results may differ in their last bits from those without wisdom")
OPTION(LIST, "list", NULL, "print what is known of the device, and measure nothing")
OPTION(VERIFY, "verify", NULL, "measure what is known of the shapes again, against none, and learn nothing")
OPTION(FORGET, "forget", NULL, "remove all that is known of the device")
OPTION(EXPORT, "export", NULL, "as --list, as a JSON document")

OPTION(REPORT, "output", "FILE", "the report; default: clattn-report.txt")

OPTION(JSON, "json", NULL, "as a JSON document")
OPTION(HELP, "help", NULL, "print this and exit")

#undef CHOICE
#undef NUMBER_TYPES
#undef CODE_TYPES
#undef CODE_TYPES_TEXT
#undef ALIGNMENTS
