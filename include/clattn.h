/* clattn: attention for every OpenCL device.
 *
 *     out = softmax(scale * query key^T + bias, masked) value
 *
 * (scaled dot-product attention: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1).
 *
 * The way through this header:
 *
 *     context   one device and what was compiled for it
 *     problem   what is to be computed: shapes (maxima), types, masks        (plain struct)
 *     plan      how it is computed on that device: strategy, programs, tiles (immutable)
 *     call      what one call changes: lengths, scale, the dropout's seed     (plain struct, may be left out)
 *     tensors   where the data is: buffers, offsets, strides                 (plain struct)
 *
 *     clattn_context *context;
 *     clattn_problem problem = CLATTN_PROBLEM_INIT;   then set the fields
 *     clattn_plan *plan;
 *     clattn_context_open(NULL, NULL, &context);
 *     clattn_plan_create(context, &problem, &plan);
 *     clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, &done);
 *
 * Or, with plain pointers and one blocking call: clattn_attention(), clattn_forward_host(). Gradients are in
 * clattn_backward.h; rotary embedding and writing into a cache in clattn_cache.h; what all of it costs in
 * clattn_costs.h; multi-head layers in clattn_layers.h, additive attention in clattn_additive.h; scores and masks of
 * your own, as a text that kernels are compiled with, in clattn_code.h; how much weight each key gets, and how large
 * logits become, in clattn_key_sums.h; one call by several devices in clattn_group.h; rows and keys on several hosts,
 * as a schedule, in clattn_ring.h.
 *
 * The formula. For batch entry b, query head h with its key/value head g = h / (query_heads / kv_heads),
 * query row i and key j:
 *
 *     s   = scale * dot(query[b,h,i,:], key[b,g,j,:])
 *     s   = softcap > 0 ? softcap * tanh(s / softcap) : s            then a score of your own
 *     s   = s + bias[b,h,i,j] - slope[b,h] * |i + offset[b] - j|
 *     s   = allowed(b,h,i,j) ? s : -inf
 *     lse = ln(sum_j exp(s) [+ exp(sink[h])])
 *     p   = exp(s - lse), then dropout
 *     out[b,h,i,:] = sum_j p * value[b,g,j,:]
 *
 *     allowed = every one of these that was asked for:
 *       causal        j <= i + offset[b]
 *       window        i + offset[b] - window_left <= j <= i + offset[b] + window_right,
 *                     or j < always_visible_keys
 *       key lengths   j < key_length[b]
 *       mask          mask[b,h,i,j] != 0, or j < mask_first_key
 *       bias          bias[b,h,i,j] != -inf
 *       varlen        query and key in the same packed sequence
 *       code          a mask of your own, or a block mask that says FULL
 *       block mask    the pair's block is not EMPTY
 *       key list      j stands in the list of the row and of its key/value head
 *
 * A row that may see no key has out = 0 and lse = -inf, or its sink, as the formula says; never NaN. A NaN or
 * infinity in a key or value that a row may not see never reaches that row. Equal inputs on one device give
 * equal bits.
 *
 * Range: products and sums are float32 (float64 for CLATTN_FLOAT64). Every strategy is right as long as, for each
 * row and key, sum_d |query_d key_d| and |scale| times it, and for each row and column the sum of |value| over the
 * keys that the row sees, are at most 1e38 (1e308), and scale is 0 or at least 1.2e-38 (2.3e-308). Beyond that a row
 * may be infinite or NaN where another strategy, or the reference, has a number: nothing is refused, and other rows
 * are as ever. Biases, sinks, slopes and softcap may be any finite numbers: a logit beyond float32 stays finite in
 * effect, and hides nothing; a slope beyond 4e28 counts as that.
 *
 * Threads: a context and its plans may be used from any number of threads at once; each enqueue that is
 * in flight needs its own workspace buffer. fork() after the first call that used OpenCL is not supported:
 * calls in the child return CLATTN_FORKED, also those that would make a new context.
 *
 * Structs grow. Those that may begin with struct_size, which their INIT macro sets, or their init function where a
 * language cannot expand macros: clattn_problem_init(&problem, sizeof(problem)). New fields stand at the end, and zero
 * in them is the old behaviour. A library takes the structs of older programs, and those of newer ones that ask for
 * nothing it does not know; anything else is CLATTN_UNSUPPORTED, never ignored. clattn_tensor, clattn_host_tensor,
 * clattn_array and clattn_partial are plain values and never change.
 *
 * Nothing here prints, and no enqueue function waits for the device. Objects are not reference-counted:
 * who creates one destroys it; a context must outlive its plans. Using an object after it was destroyed is undefined.
 */
#ifndef CLATTN_H
#define CLATTN_H

#include <stddef.h>
#include <stdint.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0
/* 100 is 0.1.0, 10203 is 1.2.3 */
#define CLATTN_VERSION_NUMBER (CLATTN_VERSION_MAJOR * 10000 + CLATTN_VERSION_MINOR * 100 + CLATTN_VERSION_PATCH)

#if defined(__GNUC__)
#define CLATTN_API __attribute__((visibility("default")))
#else
#define CLATTN_API
#endif

/* ---- status --------------------------------------------------------------------------------- */

/* Numbers are only appended. Details of the last failure: clattn_last_error(). */
typedef enum clattn_status {
    CLATTN_OK = 0,
    CLATTN_INVALID_ARGUMENT = 1, /* a NULL, a value out of its range, a tensor that is missing */
    CLATTN_INVALID_SHAPE = 2,    /* dimensions that do not fit each other */
    CLATTN_UNSUPPORTED = 3,      /* legal, but this device, build or version cannot do it */
    CLATTN_NO_DEVICE = 4,        /* no OpenCL platform or device, or none that CLATTN_DEVICE names */
    CLATTN_OUT_OF_HOST_MEMORY = 5,
    CLATTN_OUT_OF_DEVICE_MEMORY = 6, /* includes: more than the device has in all */
    CLATTN_BUILD_FAILED = 7,         /* a kernel did not compile; the build log is in the message */
    CLATTN_OPENCL_ERROR = 8,         /* another OpenCL call failed; see clattn_last_error_native() */
    CLATTN_GEMM_ERROR = 9,           /* CLBlast failed; see clattn_last_error_native() */
    CLATTN_FORKED = 10,              /* the process was forked after its parent had used OpenCL */
    CLATTN_INTERNAL = 11             /* a bug in clattn */
} clattn_status;

/* The constant's name, such as "CLATTN_INVALID_SHAPE"; never NULL. */
CLATTN_API const char *clattn_status_name(clattn_status status);

/* What the last failing call of this thread had to say: field, value, rule, what to do. Stands until
 * another call of this thread fails: calls that succeed, and destroying, leave it. Never NULL, "" when
 * nothing failed yet. */
CLATTN_API const char *clattn_last_error(void);

/* The OpenCL or CLBlast code behind that failure; 0: there was none. */
CLATTN_API int clattn_last_error_native(void);

/* "0.1.0": of the library that runs, which may be newer than the header. */
CLATTN_API const char *clattn_version(void);

/* The version as a number, like CLATTN_VERSION_NUMBER of the header. */
CLATTN_API int clattn_version_number(void);

/* ---- context -------------------------------------------------------------------------------- */

typedef struct clattn_context clattn_context;

typedef struct clattn_context_options {
    size_t struct_size; /* set by CLATTN_CONTEXT_OPTIONS_INIT */
    /* Folder to read the .cl files from instead of the embedded ones; NULL: the environment variable
     * CLATTN_CL_DIR, else the embedded ones. */
    const char *kernel_dir;
    /* Bound on the workspace of one plan in bytes; 0: 256 MiB. Staged plans cut their work into chunks
     * to stay below it; the bound gives way only when one row of scores does not fit. */
    size_t workspace_limit_bytes;
} clattn_context_options;

#define CLATTN_CONTEXT_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(clattn_context_options), NULL, 0                                                                        \
    }
CLATTN_API void clattn_context_options_init(clattn_context_options *options, size_t struct_size);

/* Makes a context for one device of the caller's cl_context. Retains both; reads the environment once,
 * here; compiles nothing yet. `options` may be NULL.
 *
 * Compiled programs are kept on disk, so that the next process need not compile them:
 *   CLATTN_CACHE       "off": not. "on": always. Not set: where the runtime does not do so itself, as PoCL
 *                      does, or CLATTN_CACHE_DIR is set. Another value is CLATTN_INVALID_ARGUMENT.
 *   CLATTN_CACHE_DIR   the folder, made with mode 0700 where it is missing. Not set: $XDG_CACHE_HOME/clattn,
 *                      else ~/.cache/clattn. It holds 256 MiB at most; what was not used for longest goes.
 *   CLATTN_BINARY_DIR  a folder that `clattn compile` wrote, looked into first and never written. With it a
 *                      device may be without an online compiler: a program that is not there is
 *                      CLATTN_UNSUPPORTED, and the message says what makes it. A folder that is missing, or
 *                      that others may write to, is CLATTN_INVALID_ARGUMENT.
 * A file counts only when it was made for the same source, options, device, driver and version of clattn,
 * is whole to the last bit, and nobody but the user (for CLATTN_BINARY_DIR: or root) could have written it or
 * its folder. Otherwise, or where anything of this fails, programs are compiled, and nothing is said.
 *
 * Drivers are wrong at times. On devices whose driver the tests do not run on, a new plan of attention, or of its
 * gradients, computes a few small calls with its own programs and holds them against the float64 reference, once for
 * those programs and features; a strategy whose answer is wrong, or that two processes in a row ended in, is not taken,
 * and clattn_plan_explain says so; one that was asked for by name is CLATTN_UNSUPPORTED. Sums of weights, caches and
 * layers' other steps are not checked.
 *   CLATTN_SELF_CHECK  "always": on every device. "again": also what was found before. "off": never. Another value is
 *                      CLATTN_INVALID_ARGUMENT. What was found is in the folder of compiled programs, but with
 *                      CLATTN_CACHE "off", and counts until driver, device or clattn change.
 *
 * A process that has more rights than its user (another effective user or group, file capabilities: AT_SECURE on
 * Linux) keeps no programs and takes no folder from the environment, CLATTN_CL_DIR neither, nor
 * CLATTN_SELF_CHECK. That is no promise for such programs: the OpenCL loader, drivers and CLBlast read variables of
 * their own. They should clear the environment.
 *
 * A context keeps each program that it has compiled or loaded until it is destroyed, also when no plan is left that
 * uses it: PoCL takes 6 to 11 MiB for one. There is one for each combination of strategy, types, head dims, features
 * and tiles that its plans have had, which lengths, batch and heads add little to. A process that plans for ever new
 * head dims destroys its context now and then, and makes another.
 *
 * What `clattn tune` found on the device decides tiles, and with its --bits strategies:
 *   CLATTN_WISDOM_DIR  the folder; "": none is read. Not set: $XDG_STATE_HOME/clattn/wisdom, else
 *                      ~/.local/state/clattn/wisdom, and /etc/clattn/wisdom for what is not there.
 * Files are trusted as those of CLATTN_BINARY_DIR are; none is read beside that. What is in one may cost time, and
 * never a result: clattn_plan_explain says where a tile is from.
 *
 * The caller owns *context and destroys it with clattn_context_destroy after all its plans. */
CLATTN_API clattn_status clattn_context_create(cl_context cl, cl_device_id device,
                                               const clattn_context_options *options, clattn_context **context);

/* Makes a context on a device chosen by name:
 *   "gpu", "cpu", "accelerator"   the first device of that type
 *   "<platform>:<device>"         by number, as `clattn devices` lists them, such as "0:1"
 *   other text                    part of a device's or platform's name, upper and lower case alike
 *   NULL                          the environment variable CLATTN_DEVICE by the same rules; where it is
 *                                 not set: the first GPU, else accelerator, else CPU
 * Lists of devices, names with + between them, are for clattn_group_open (clattn_group.h).
 * No match is CLATTN_NO_DEVICE with a message that lists what there is; another device is never taken
 * in its place. `options` may be NULL. */
CLATTN_API clattn_status clattn_context_open(const char *device, const clattn_context_options *options,
                                             clattn_context **context);

/* Waits for nothing: work in flight must be over. NULL is allowed. */
CLATTN_API void clattn_context_destroy(clattn_context *context);

/* The OpenCL objects behind a context, owned by it. The queue is an in-order queue of the context's
 * own, which the blocking calls use; callers may enqueue on it too. */
CLATTN_API cl_context clattn_context_cl(const clattn_context *context);
CLATTN_API cl_device_id clattn_context_device(const clattn_context *context);
CLATTN_API cl_command_queue clattn_context_queue(const clattn_context *context);

/* What there is on this machine, as text: the list of devices (numbers, names, types, what each can
 * do), which one a NULL device would choose, and why. With as_json != 0 as a JSON document. The caller
 * frees *text with clattn_free. A machine without a platform is CLATTN_OK with a text that says so. */
CLATTN_API clattn_status clattn_describe_devices(int as_json, char **text);
CLATTN_API void clattn_free(void *memory);

/* ---- problem -------------------------------------------------------------------------------- */

/* Storage types. Sums and softmax are in float32 (in float64 for CLATTN_FLOAT64). float16 and bfloat16
 * storage works on every device; CLATTN_FLOAT64 needs a device with fp64. The others are for keys and values only. */
typedef enum clattn_type {
    CLATTN_TYPE_NONE = 0, /* no bias, as bias_type; float32, of slopes and sinks; elsewhere the type of the queries */
    CLATTN_FLOAT32 = 1,
    CLATTN_FLOAT16 = 2,
    CLATTN_BFLOAT16 = 3,
    CLATTN_FLOAT64 = 4,
    /* Codes of one byte; a value is code * scale, rounded to float32. Scales are float32, in tensors of their own. */
    CLATTN_INT8 = 5,
    CLATTN_E4M3 = 6, /* 8-bit float of the finite kind: up to 448, 0x7f is NaN, there is no infinity */
    CLATTN_E5M2 = 7, /* 8-bit float: up to 57344, the upper half of a float16 */
    /* ggml's blocks of 32 neighbouring columns, little-endian: a float16 scale d, then a float16 m (q4_1, q5_1), a
     * uint32 of fifth bits (q5_0, q5_1; bit j: column j), 16 bytes q: column j in the low four bits, j + 16 in the
     * high ones. */
    CLATTN_Q8_0 = 8,  /* 34 bytes: int8 q[32];  d q */
    CLATTN_Q4_0 = 9,  /* 18 bytes;  d (q - 8) */
    CLATTN_Q4_1 = 10, /* 20 bytes;  d q + m, rounded to float32 */
    CLATTN_Q5_0 = 11, /* 22 bytes;  d (q - 16) */
    CLATTN_Q5_1 = 12, /* 24 bytes;  d q + m, rounded to float32 */
    /* ggml's blocks of 4-bit floats e2m1 (code 0 to 7: 0, 0.5, 1, 1.5, 2, 3, 4, 6; plus 8: negative); e2m1 times its
     * scale. */
    CLATTN_MXFP4_GGML = 13, /* 32 columns, 17 bytes: a scale 2^(byte - 127), 255: NaN; 16 bytes as those of q4_0 */
    CLATTN_NVFP4_GGML = 14, /* 64 columns, 36 bytes: a scale e4m3 for each 16 columns, whose highest bit counts for
                             * nothing; of each 16 columns 8 bytes: column j in the low four bits, j + 8 in the high */
    CLATTN_INT4 = 15,       /* two columns a byte, the first in its low four bits: (code - 8) * scale, as of int8 */
    /* Codes with scales, and more, in tensors of their own: */
    CLATTN_U8 = 16,    /* (code - zero point) * scale, difference and product rounded; OpenVINO's */
    CLATTN_U4 = 17,    /* the same, two columns a byte, the first in its high four bits */
    CLATTN_MXFP8 = 18, /* e4m3, each 32 columns of a row with a scale e8m0: a byte, 2^(byte - 127), 255: NaN */
    CLATTN_MXFP4 = 19, /* e2m1, two columns a byte, the first in its low four bits; the same scales */
    CLATTN_NVFP4 = 20, /* the same codes, each 16 columns with a scale e4m3, times a float32 one of the whole tensor */
    CLATTN_E8M0 = 21   /* what those scales are stored as: of no tensor else */
} clattn_type;

CLATTN_API size_t clattn_type_size(clattn_type type);     /* of an element, or of a block; 0 for an unknown type */
CLATTN_API int64_t clattn_type_columns(clattn_type type); /* of a block: 32, 64; of four bits: 2, else 1; 0: unknown */
/* Bytes of a row; 0 where `columns` is no multiple of clattn_type_columns, or they do not fit 64 bits. */
CLATTN_API size_t clattn_row_bytes(clattn_type type, int64_t columns);
CLATTN_API const char *clattn_type_name(clattn_type type); /* "float32", "q8_0", ...; never NULL */

/* A row of host memory to any type, and back. `scales`, of int8, int4, e4m3 and e5m2 (NULL: 1): one for each
 * `scale_columns` columns, 0: one for all. The bytes of blocks are those of ggml's quantize_row_*_ref. mxfp4_ggml: the
 * scale is 2^floor(log2(largest magnitude)) / 4; nvfp4_ggml: that magnitude / 6 to the nearest e4m3, ties to even, at
 * most 448 (ggml's own differs next to 2^-6 and above 248), which cuts values off at 2,688; codes are the nearest, of
 * two the smaller. int8, int4: x * (1 / scale) to the nearest, ties to even, from -128 to 127 and -8 to 7; e4m3, e5m2:
 * x / scale to the nearest, ties to even, at most their largest number; whatever the caller's rounding mode is. A value
 * that is not finite leaves NaN or infinities in its block (nvfp4_ggml: its 16 columns); int8 and int4 have none for
 * NaN: 0. CLATTN_INVALID_ARGUMENT: finite values whose block needs a scale or a minimum beyond float16; all of the row
 * was written, that block with infinities. */
CLATTN_API clattn_status clattn_quantise(clattn_type type, int64_t columns, const float *values, const float *scales,
                                         int64_t scale_columns, void *row);
CLATTN_API clattn_status clattn_dequantise(clattn_type type, int64_t columns, const void *row, const float *scales,
                                           int64_t scale_columns, float *values);

/* What a row's codes have beside them, in host memory. */
typedef struct clattn_row_scales {
    void *scales;        /* one for each `columns` columns: float32; of mxfp8, mxfp4 and nvfp4 a byte */
    float *zero_points;  /* as many, of u8 and u4; else NULL */
    int64_t columns;     /* 0: all of the row; of mxfp8 and mxfp4 32, of nvfp4 16, whether that or 0 is said */
    double tensor_scale; /* of nvfp4, by which each scale is multiplied, as float32; else 1 */
} clattn_row_scales;

/* Rows of types with scales beside their codes. `make_scales`: 0 takes the scales as they are; nonzero makes them
 * of the values, and stores them (u8, u4, mxfp8, mxfp4, nvfp4).
 *     u8, u4        scale = (max - min) / 255 or 15 (0.0001 where that is 0), zero point = -min / scale;
 *                   code = x / scale + zero point, halves away from zero
 *     mxfp8, mxfp4  scale = 2^floor(log2(largest magnitude)) / 2^8 or / 2^2; code = x / scale, ties to even
 *     nvfp4         scale = the nearest e4m3 to largest magnitude / 6 / tensor_scale;
 *                   code = x / (scale * tensor_scale), ties to even
 * Codes are at most the largest one. A value that is not finite makes NaN of its scale. CLATTN_INVALID_*: a type
 * without such scales, or what it has not; nothing was written. CLATTN_INVALID_ARGUMENT too: finite values of u8 or u4
 * of which float32 cannot hold (max - min), or a code's value again; all of the row was written. */
CLATTN_API clattn_status clattn_quantise_row(clattn_type type, int64_t columns, const float *values, int make_scales,
                                             const clattn_row_scales *scales, void *row);
CLATTN_API clattn_status clattn_dequantise_row(clattn_type type, int64_t columns, const void *row,
                                               const clattn_row_scales *scales, float *values);

/* At which position among the keys query row 0 stands: offset[b] of the formula. Never guessed from
 * shapes: causal, windows and slopes are an error while it is unset. */
typedef enum clattn_alignment {
    CLATTN_ALIGN_UNSET = 0,
    CLATTN_ALIGN_TOP_LEFT = 1,     /* 0 */
    CLATTN_ALIGN_BOTTOM_RIGHT = 2, /* length of the keys - length of the queries, for each batch entry:
                                    * key_lengths and packed sequences count as they are */
    CLATTN_ALIGN_OFFSETS = 3       /* tensors.query_offsets[b], which may be negative */
} clattn_alignment;

/* What tensors.weights receives (the four modes of ONNX's Attention, output qk_matmul_output). */
typedef enum clattn_weights {
    CLATTN_WEIGHTS_NONE = 0,
    CLATTN_WEIGHTS_SCORES = 1,  /* scale * q.k, for all keys, masked ones too; 0 for keys in holes of a page table */
    CLATTN_WEIGHTS_SOFTCAP = 2, /* the same after softcap */
    CLATTN_WEIGHTS_LOGITS = 3,  /* after bias, slopes and masks: -inf where not allowed */
    CLATTN_WEIGHTS_SOFTMAX = 4  /* p, before dropout: 0 where not allowed */
} clattn_weights;

/* Optional tensors that a problem has. Each must be given in clattn_tensors when its flag is set, and
 * must not when it is not. */
typedef enum clattn_feature {
    CLATTN_WITH_MASK = 1 << 0,         /* tensors.mask, uint8 */
    CLATTN_WITH_KEY_LENGTHS = 1 << 1,  /* tensors.key_lengths */
    CLATTN_WITH_SLOPES = 1 << 2,       /* tensors.slopes: ALiBi (Press et al., 2021) */
    CLATTN_WITH_SINKS = 1 << 3,        /* tensors.sinks: one more logit a head that has no value */
    CLATTN_WITH_VARLEN = 1 << 4,       /* tensors.cu_query, cu_key: packed sequences */
    CLATTN_WITH_LSE = 1 << 5,          /* tensors.lse, an output */
    CLATTN_WITH_PAGES = 1 << 6,        /* tensors.page_table: keys and values lie in pages of a pool */
    CLATTN_WITH_PAGE_STARTS = 1 << 7,  /* tensors.page_starts: the pages of all sequences follow one another */
    CLATTN_WITH_KEY_SCALES = 1 << 8,   /* tensors.key_scales, of int8, int4, e4m3, e5m2 keys; without: 1. Keys in u8,
                                        * u4, mxfp8, mxfp4 and nvfp4 need them */
    CLATTN_WITH_VALUE_SCALES = 1 << 9, /* tensors.value_scales, the same */
    CLATTN_WITH_ROW_RANGES = 1 << 10,  /* tensors.row_low, row_high: the keys that each row sees */
    CLATTN_WITH_BLOCK_MASK = 1 << 11,  /* tensors.block_mask: which blocks of rows and keys are seen */
    CLATTN_WITH_KEY_LISTS = 1 << 12    /* tensors.key_lists: the numbers of the keys that rows see */
} clattn_feature;

/* What tensors.block_mask says of a block of rows and keys. Other values count as CLATTN_BLOCK_PARTIAL. */
typedef enum clattn_block {
    CLATTN_BLOCK_EMPTY = 0,   /* no row sees any key of it; none is read for it */
    CLATTN_BLOCK_PARTIAL = 1, /* pairs are seen as all other masks say */
    CLATTN_BLOCK_FULL = 2     /* the same, but a mask of your own (clattn_code.h) is not asked */
} clattn_block;

/* Which matrix multiply a staged plan uses. CLBlast takes no out-of-order queue, no row stride below the
 * number of columns, no offset of 2^31 or more and no sum of more than 65,536 keys: calls with one of these
 * are multiplied by the tiles, whose sums round differently. */
typedef enum clattn_matmul {
    CLATTN_MATMUL_AUTO = 0,    /* tiles on CPU devices and for tiny matrices, else CLBlast where it can serve */
    CLATTN_MATMUL_CLBLAST = 1, /* problems that CLBlast cannot serve are CLATTN_UNSUPPORTED */
    CLATTN_MATMUL_TILES = 2    /* clattn's own tiled kernels */
} clattn_matmul;

/* Start from CLATTN_PROBLEM_INIT. Lengths are maxima: the tensors of a call may be shorter, so that decoding plans
 * once. The maximum of query_len chooses how every call is computed: a plan for 512 rows computes one row by an
 * algorithm for many, several times slower than a plan for one does. For a prompt and its steps make two plans.
 * query_len and key_len are at most 2^31 - 4097, all else, batch * query_heads too, at most 2^31 - 1. */
typedef struct clattn_problem {
    size_t struct_size;
    clattn_type type;    /* of query; of key, value and out where they have none of their own */
    int64_t batch;       /* or the number of packed sequences; 0 is legal, as for all lengths */
    int64_t query_heads; /* a multiple of kv_heads */
    int64_t kv_heads;
    int64_t query_len; /* varlen: of the longest sequence */
    int64_t key_len;
    int64_t head_dim;            /* of queries and keys, >= 1 */
    int64_t head_dim_v;          /* of values and out, >= 1; 0: head_dim */
    uint32_t features;           /* clattn_feature, or-ed */
    clattn_type bias_type;       /* of tensors.bias; CLATTN_TYPE_NONE: no bias; not float64, except with
                                  * type CLATTN_FLOAT64 */
    clattn_weights weights;      /* tensors.weights */
    int causal;                  /* nonzero: key j is visible to row i iff j <= i + offset */
    clattn_alignment alignment;  /* of causal, window and slopes */
    int64_t window_left;         /* -1: no bound; 0: the diagonal only; W keeps W keys before it */
    int64_t window_right;        /* -1: no bound */
    int64_t always_visible_keys; /* these first keys pass the window (not the other masks) */
    double softcap;              /* 0: none; else > 0, finite */
    double dropout;              /* probability in [0, 1) that a weight is dropped; kept ones are
                                  * divided by 1 - dropout; 0: none */
    int strided_columns;         /* 0: the innermost stride of query, key, value, out is 1, the fast
                                  * case, checked in each call; 1: any */
    clattn_matmul matmul;        /* staged plans only */
    const char *strategy;        /* NULL: the best; else its name, such as "plain", "staged"; a strategy
                                  * that cannot take the problem is CLATTN_UNSUPPORTED */
    int allow_tf32;              /* type float32: nonzero: a matrix unit may round queries, keys, values and
                                  * weights to the 11 bits of tf32 before it multiplies them; sums stay
                                  * float32. 0: all 24 bits count */
    clattn_type key_type;   /* of key; CLATTN_TYPE_NONE: `type`. Any go together, but float64 with itself only. head_dim
                             * is a multiple of clattn_type_columns */
    clattn_type value_type; /* that of value; head_dim_v is a multiple of clattn_type_columns */
    clattn_type out_type;   /* of out; a floating-point type. float32 is what partial results of 16-bit inputs should
                             * be, so that merging them loses nothing */
    int64_t page_size;      /* keys of a page, >= 1, with CLATTN_WITH_PAGES; else 0 */
    int64_t pages;          /* pages of the pool */
    int64_t key_scale_rows; /* with CLATTN_WITH_KEY_SCALES: rows, as they are stored, that share a scale; 0: all, but of
                             * mxfp8, mxfp4 and nvfp4 1 */
    int64_t key_scale_columns; /* columns that do; 0: all, but of mxfp8 and mxfp4 32, of nvfp4 16 */
    int64_t value_scale_rows;  /* the same of values */
    int64_t value_scale_columns;
    int64_t ring;                  /* rows that are kept of each sequence; 0: all. See clattn_tensors */
    int64_t allow_rounded_weights; /* type float16 or bfloat16: nonzero: a matrix unit may round softmax weights to
                                    * values' type before it multiplies them, as most libraries do: faster, and less
                                    * accurate (clattn_plan_weight_rounding). 0: they are as good as float32 */
    int64_t pool_pages; /* pages of a buffer, where the pool is of several: ceil(pages / pool_pages) of them, up to 4;
                         * 0: one buffer has all pages. See clattn_tensors */
    const struct clattn_user_code *code; /* a score and a mask of your own, of clattn_code.h; NULL: none */
    int64_t block_mask_rows; /* rows of a block of tensors.block_mask, >= 1, with CLATTN_WITH_BLOCK_MASK; else 0 */
    int64_t block_mask_keys; /* keys of one; the same */
    int64_t key_list_rows;   /* rows that share a list of tensors.key_lists, >= 1, with CLATTN_WITH_KEY_LISTS; else 0 */
    int64_t key_list_keys;   /* numbers of a list, >= 1; the same */
    int64_t mask_bits;       /* with CLATTN_WITH_MASK: nonzero: the mask has a bit for each key, not a byte */
    int64_t value_in_key; /* nonzero: values are the first head_dim_v columns of keys, whose type, scales, zero points
                              * and pools are theirs too, as in latent attention: leave value_type, value_scale_rows,
                              * value_scale_columns and the tensors value, value_... unset. Not for gradients */
    clattn_type slopes_type; /* of tensors.slopes; CLATTN_TYPE_NONE: float32; with type CLATTN_FLOAT64 float64 too.
                              * Without CLATTN_WITH_SLOPES leave it unset */
    clattn_type sinks_type;  /* that of tensors.sinks; so with CLATTN_WITH_SINKS */
} clattn_problem;

#define CLATTN_PROBLEM_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(clattn_problem), CLATTN_FLOAT32, 1, 1, 1, 0, 0, 0, 0, 0, CLATTN_TYPE_NONE, CLATTN_WEIGHTS_NONE, 0,      \
            CLATTN_ALIGN_UNSET, -1, -1, 0, 0.0, 0.0, 0, CLATTN_MATMUL_AUTO, NULL, 0, CLATTN_TYPE_NONE,                 \
            CLATTN_TYPE_NONE, CLATTN_TYPE_NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, CLATTN_TYPE_NONE,   \
            CLATTN_TYPE_NONE                                                                                           \
    }
CLATTN_API void clattn_problem_init(clattn_problem *problem, size_t struct_size);

/* ---- plan ----------------------------------------------------------------------------------- */

typedef struct clattn_plan clattn_plan;

/* Checks the problem, chooses a strategy and compiles what it needs: may take seconds the first time. Calls of the plan
 * compile nothing (docs/plans.md: but for kernels of GPUs on PoCL's CPUs, and CLBlast). Blocks; the kernels that it
 * launches on a queue of its own for that touch no memory. Copies the problem. The caller owns *plan. Errors:
 * CLATTN_INVALID_*, CLATTN_UNSUPPORTED (the message says why each strategy declined), CLATTN_BUILD_FAILED, out of
 * memory. */
CLATTN_API clattn_status clattn_plan_create(clattn_context *context, const clattn_problem *problem, clattn_plan **plan);
CLATTN_API void clattn_plan_destroy(clattn_plan *plan);

/* Plans in a thread of its own, which the library starts, so that a server can serve while kernels compile.
 * clattn_plan_begin checks and copies the problem's fields, and returns at once; what only planning finds (an unknown
 * strategy, CLATTN_UNSUPPORTED, CLATTN_BUILD_FAILED, no memory) clattn_plan_finish returns. Any number of requests may
 * be under way; the context must live until each is finished. The thread takes none of the program's signals, and has 8
 * MiB of stack. */
typedef struct clattn_plan_request clattn_plan_request;
CLATTN_API clattn_status clattn_plan_begin(clattn_context *context, const clattn_problem *problem,
                                           clattn_plan_request **request);

/* 1: the plan is made, or failed, and clattn_plan_finish does not wait. Does not block. */
CLATTN_API int clattn_plan_is_ready(const clattn_plan_request *request);

/* Waits for the plan, hands it over (the caller owns *plan) or says why there is none, with clattn_last_error() in the
 * calling thread, and frees the request: once for each, by any thread. */
CLATTN_API clattn_status clattn_plan_finish(clattn_plan_request *request, clattn_plan **plan);

/* Bytes of device memory that clattn_tensors.workspace must have; 0: none needed. */
CLATTN_API size_t clattn_plan_workspace(const clattn_plan *plan);

/* The chosen strategy's name, such as "staged". Owned by the plan, as is the text of explain. */
CLATTN_API const char *clattn_plan_strategy(const clattn_plan *plan);

/* Several lines of text: the strategy, its tiles, which matrix multiply runs, the workspace, and why
 * each other strategy was not taken. */
CLATTN_API const char *clattn_plan_explain(const clattn_plan *plan);

/* How far softmax weights may be rounded, relative to themselves, before they meet the values: 2^-16 where a matrix
 * unit takes them in two parts of bfloat16, 2^-21 of float16, 2^-11 as tf32; where a plan makes use of
 * allow_rounded_weights 2^-8 in bfloat16, 2^-11 in float16; 0 (also for NULL) where they stay in float32 or wider. It
 * adds as much, times sum_j p_j |v_j|, to an output's error. A backward plan: that of weights and their derivatives. */
CLATTN_API double clattn_plan_weight_rounding(const clattn_plan *plan);

/* How often a term of a sum over keys (of a backward plan: over rows or keys) is rounded on its way to the result, at
 * most: a constant of the plan, however many terms there are and whatever they are. docs/numbers.md makes the error
 * bound of it. 0 for NULL. */
CLATTN_API double clattn_plan_sum_roundings(const clattn_plan *plan);

/* How far queries, keys and values may be rounded: 2^-11 where a plan makes use of allow_tf32, else 0. With a share of
 * f, an output's error grows by f (4 Abar + 1) sum_j p_j |v_j|, and lse's by 2 f Abar, where Abar = sum_j p_j A_j and
 * A_j = |scale| sum_d |q_d k_jd|. */
CLATTN_API double clattn_plan_factor_rounding(const clattn_plan *plan);

/* ---- tensors -------------------------------------------------------------------------------- */

/* Device memory: element i of the tensor's indices is at buffer[offset + sum(index * stride)], counted
 * in elements of its type. Strides are for batch, head, row, column; 0 broadcasts an input. */
typedef struct clattn_tensor {
    cl_mem buffer; /* NULL: not given */
    int64_t offset;
    int64_t stride[4];
} clattn_tensor;

/* Host memory, same rules. */
typedef struct clattn_host_tensor {
    void *data; /* NULL: not given; inputs are only read */
    int64_t offset;
    int64_t stride[4];
} clattn_host_tensor;

/* Dense device memory: its first element is element `offset` of the buffer. */
typedef struct clattn_array {
    cl_mem buffer; /* NULL: not given */
    int64_t offset;
} clattn_array;

/* clang-format off */
#define CLATTN_TENSOR_NONE { NULL, 0, { 0, 0, 0, 0 } }
#define CLATTN_ARRAY_NONE { NULL, 0 }
#define CLATTN_7_ARRAYS_NONE                                                                                           \
    CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE, CLATTN_ARRAY_NONE,  \
        CLATTN_ARRAY_NONE
/* clang-format on */

/* The values of one call, the same for device and host memory. Start from CLATTN_CALL_INIT. */
typedef struct clattn_call {
    size_t struct_size;
    int64_t query_len;       /* <= the problem's; -1: the problem's. Varlen: not used */
    int64_t key_len;         /* the same for keys */
    int64_t mask_key_len;    /* keys that the mask covers, the rest is not visible; -1: all */
    int64_t bias_key_len;    /* the same for the bias */
    int has_scale;           /* 0: scale is 1 / sqrt(head_dim); 1: the next field */
    double scale;            /* any finite value, 0 and negative ones included; 0 where has_scale is 0 */
    uint64_t dropout_seed;   /* dropout draws Philox 4x32-10 (Salmon et al., 2011): key = seed, counter =
                              * {j / 4, i, b * whole_heads + h, offset}, word j % 4 of the result; a weight is kept
                              * where the word >= dropout * 2^32 */
    uint32_t dropout_offset; /* of that counter */
    int64_t first_batch;     /* where b, h, i and j of the counter begin: a call on a slice of a problem draws the bits
                              * that the whole would, and a text (clattn_code.h) is told their numbers. Nothing else
                              * depends on them: positions of causal masks, windows and slopes are query_offsets'.
                              * Varlen: rows and keys count from the beginning of each sequence */
    int64_t first_head;
    int64_t first_row;
    int64_t first_key;
    int64_t whole_heads;    /* query heads of the whole problem; 0: of this one */
    float code_scalars[8];  /* what SCALAR loads, in the order of problem.code.scalars; 0 behind the last one */
    int64_t mask_first_key; /* mask and bias are of the keys from this one on, and so count mask_key_len (-1: all from
                             * there) and bias_key_len; keys before it pass the mask and have a bias of 0: trees of
                             * guesses behind a cache. 0 to key_len; gradients of a bias: 0 */
} clattn_call;

#define CLATTN_CALL_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(clattn_call), -1, -1, -1, -1, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0 }, 0                \
    }
CLATTN_API void clattn_call_init(clattn_call *call, size_t struct_size);

/* Shapes, with strides in that order:
 *   query    [batch, query_heads, query_len, head_dim]      out [.., query_len, head_dim_v]
 *   key      [batch, kv_heads, key_len, head_dim]           value [.., key_len, head_dim_v]
 *            varlen: the batch stride is not used; rows of sequence b start at row cu_query[b] (cu_key[b])
 *   lse      [batch, query_heads, query_len], float32, natural logarithm (stride[3] not used)
 *   mask     [batch, query_heads, query_len, key_len], uint8, nonzero = may be seen; column 0 is of mask_first_key
 *            mask_bits: [.., ceil(key_len / 8)], uint8: column c is bit c % 8 (1 << c % 8) of byte c / 8, so of
 *            little-endian words of any size too; strides count bytes; bits behind the last column are not looked at
 *   bias     the same shape, of bias_type
 *   weights  the same shape, float32 (float64 for type CLATTN_FLOAT64), an output
 *   slopes   [batch, query_heads], of slopes_type: stride[0], stride[1]
 *   sinks    [query_heads], of sinks_type: stride[1]
 *   key_lengths, query_offsets  [batch], int32, dense from offset on; a key length beyond 0 to key_len counts
 *            as the nearer of the two
 *   cu_query, cu_key            [batch + 1], int32, dense from offset on, not falling, first 0.
 *            Sequences longer than the problem's query_len or key_len are not computed past it.
 *            (The blocking calls see these values and refuse lengths that do not fit.)
 *   row_low, row_high  [batch, query_heads, query_len], int32 (stride[3] not used; strides 0 share them): a row sees
 *            keys row_low <= j < row_high, besides all other masks; they may lie outside 0 to key_len
 *   block_mask  [batch, query_heads, ceil(query_len / block_mask_rows), ceil(key_len / block_mask_keys)], uint8: a
 *            clattn_block each, besides all other masks. Rows and keys count from 0 in their sequence, also where it is
 *            packed, in pages or a ring. Strides of 0 share blocks: of heads, say. Any bytes are right, and say what
 *            is seen; clattn_enqueue_block_mask (clattn_code.h) makes them of a text
 *   key_lists  [batch, kv_heads, ceil(query_len / key_list_rows), key_list_keys], int32; strides 0 share lists. Rows
 *            r key_list_rows .. of a sequence, counted from 0 also where it is packed, see the keys whose numbers stand
 *            in list r of their key/value head, besides all other masks. The first negative number ends a list; what
 *            is behind it is not read. Numbers count keys, also in pages and rings; slopes and causal masks go by
 *            them. Any order; those at or past the length hide nothing else; none may stand twice in a list. Keys
 *            that are in no list are not read. weights must be NONE
 *   key_scales  [batch, kv_heads, ceil(key_len / key_scale_rows), ceil(head_dim / key_scale_columns)], float32; strides
 *            0 share them. Element c of row j is code * key_scales[b, g, j / key_scale_rows, c / key_scale_columns].
 *            varlen: the batch stride is not used, and packed rows are counted
 *            Keys in mxfp8 and mxfp4 have them in e8m0, in nvfp4 in e4m3: a byte each
 *   value_scales  the same of values and head_dim_v
 *   key_zero_points  in u8 and u4: the shape of key_scales, float32, strides of their own; (code - zero point) * scale
 *   key_tensor_scale  in nvfp4: one float32, by which each scale is multiplied. value_zero_points, value_tensor_scale
 *            are those of values
 *   with problem.value_in_key value, value_scales, value_zero_points, value_tensor_scale, value_pools are left out
 *   code_tensors  one for each of problem.code.tensors: its elements, dense from offset (below 2^32) on
 *
 * Offsets and strides of keys and values of block types and codes of four bits count columns, in multiples of
 * clattn_type_columns.
 *
 * Pages (CLATTN_WITH_PAGES; of a cache that others fill, as in vLLM, Kwon et al., 2023):
 *   key      [pages, kv_heads, page_size, head_dim]         value [.., page_size, head_dim_v]
 *            any order of the axes by their strides; both may lie in one buffer
 *   page_table   [batch, kv_heads, pages of a sequence], int32: stride[0], stride[1] (0: one for all heads), stride[3].
 *            Key j of sequence b and of head g is in row j % page_size of page page_table[b, g, j / page_size]. It has
 *            ceil(key_len / page_size) columns, of the call's key_len; what is behind a sequence's length is not read.
 *            A page may be in several sequences.
 *   page_starts  [batch + 1], int32, dense: the table is one line, and page n of sequence b its element
 *            page_starts[b] + n; stride[0] is not used
 *   key_lengths must be there. Queries are dense, or packed by cu_query; cu_key must not be given.
 *   A page outside 0 to pages - 1, say -1, is a hole: its keys are not visible, positions of the others stay.
 *            (The blocking calls refuse such a page, but for -1.)
 *   key_scales, key_zero_points  [pages, kv_heads, ceil(page_size / key_scale_rows), ..]: rows count within a page; so
 *   are those of values
 *   Results have the same bits as without pages.
 *
 * Pools of several buffers (problem.pool_pages, N), because CL_DEVICE_MAX_MEM_ALLOC_SIZE may be smaller than a pool:
 *   page n of the table is page n % N of buffer n / N: of key and value, then of key_pools[0], value_pools[0], ... The
 *   last buffer has the pages that are left. As many must be given as the pages need, others must not. Their strides
 *   are those of key and of value, their offsets their own, within 2^39 - 1 elements of key's and value's.
 *   scales, zero points  one tensor for all pages, by the table's numbers
 *   Results have the same bits as with one buffer.
 *
 * Rings (problem.ring, R; always_visible_keys of them, P, stay): key j is in row j where j < P, else in row
 *   P + (j - P) % (R - P), of R rows, or of the pages for R rows. Lengths count all keys so far, n of a sequence, and
 *   so do positions; keys P <= j < n - (R - P) were overwritten, and no row sees them.
 *
 * Outputs and the workspace must not overlap inputs or each other, nor elements of an output each other: what can be
 * seen of it by buffers, offsets and strides is CLATTN_INVALID_ARGUMENT (not by sub-buffers, nor packed rows). Rows
 * of several tensors may take turns in one buffer. The blocking calls take outputs that lie on inputs, which are
 * read first (clattn_reference_forward does not). A buffer that kernels write must not be of CL_MEM_READ_ONLY, nor one
 * that they read of CL_MEM_WRITE_ONLY. */
typedef struct clattn_tensors {
    size_t struct_size; /* set by CLATTN_TENSORS_INIT */
    cl_mem workspace;   /* clattn_plan_workspace() bytes, not shared by two calls in flight; may be NULL where 0 */
    clattn_tensor query, key, value, out;
    clattn_tensor lse, mask, bias, weights, slopes, sinks;
    clattn_tensor key_lengths, query_offsets, cu_query, cu_key;
    clattn_tensor page_table, page_starts, row_low, row_high;
    clattn_tensor key_scales, value_scales;
    clattn_tensor key_pools[3], value_pools[3];
    clattn_tensor code_tensors[8];
    clattn_tensor block_mask, key_lists;
    clattn_tensor key_zero_points, value_zero_points;
    clattn_tensor key_tensor_scale, value_tensor_scale;
} clattn_tensors;

typedef struct clattn_host_tensors {
    size_t struct_size; /* set by CLATTN_HOST_TENSORS_INIT */
    clattn_host_tensor query, key, value, out;
    clattn_host_tensor lse, mask, bias, weights, slopes, sinks;
    clattn_host_tensor key_lengths, query_offsets, cu_query, cu_key;
    clattn_host_tensor page_table, page_starts, row_low, row_high;
    clattn_host_tensor key_scales, value_scales;
    clattn_host_tensor key_pools[3], value_pools[3];
    clattn_host_tensor code_tensors[8];
    clattn_host_tensor block_mask, key_lists;
    clattn_host_tensor key_zero_points, value_zero_points;
    clattn_host_tensor key_tensor_scale, value_tensor_scale;
} clattn_host_tensors;

#define CLATTN_20_TENSORS_NONE                                                                                         \
    CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,                \
        CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,            \
        CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,            \
        CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE
/* clang-format off */
#define CLATTN_POOLS_NONE { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE }
#define CLATTN_CODE_TENSORS_NONE                                                                                       \
    { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,                                  \
      CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE }
/* clang-format on */
#define CLATTN_TENSORS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(clattn_tensors), NULL, CLATTN_20_TENSORS_NONE, CLATTN_POOLS_NONE, CLATTN_POOLS_NONE,                    \
            CLATTN_CODE_TENSORS_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,  \
            CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE                                                                     \
    }
#define CLATTN_HOST_TENSORS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(clattn_host_tensors), CLATTN_20_TENSORS_NONE, CLATTN_POOLS_NONE, CLATTN_POOLS_NONE,                     \
            CLATTN_CODE_TENSORS_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE,  \
            CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE                                                                     \
    }
CLATTN_API void clattn_tensors_init(clattn_tensors *tensors, size_t struct_size);
CLATTN_API void clattn_host_tensors_init(clattn_host_tensors *tensors, size_t struct_size);

/* Dense strides of a [batch, head, row, column] tensor: heads before rows (BHSD), or rows before heads
 * (BSHD, as packed projections leave them). */
CLATTN_API void clattn_strides_bhsd(int64_t heads, int64_t rows, int64_t columns, int64_t stride[4]);
CLATTN_API void clattn_strides_bshd(int64_t heads, int64_t rows, int64_t columns, int64_t stride[4]);

/* A whole tensor of these strides that begins at the first element of its memory. Data that is only read may be const.
 * Tensors of three axes, such as lse, have 1 column. */
CLATTN_API clattn_tensor clattn_tensor_bhsd(cl_mem buffer, int64_t heads, int64_t rows, int64_t columns);
CLATTN_API clattn_tensor clattn_tensor_bshd(cl_mem buffer, int64_t heads, int64_t rows, int64_t columns);
CLATTN_API clattn_host_tensor clattn_host_tensor_bhsd(const void *data, int64_t heads, int64_t rows, int64_t columns);
CLATTN_API clattn_host_tensor clattn_host_tensor_bshd(const void *data, int64_t heads, int64_t rows, int64_t columns);

/* ---- computing ------------------------------------------------------------------------------ */

/* Enqueues the computation on a queue of the context's device and returns without waiting. Begins after
 * the n_wait events of `wait`; *done (may be NULL) is an event that the caller releases. An event of `wait` that has
 * failed is refused; one that fails later keeps the computation from running, and PoCL from ever ending it. In-order
 * and out-of-order queues are both allowed. `call` may be NULL: the problem's own lengths, the default scale. Buffers
 * must stay alive until it is done; the structs need not. After an error nothing needs undoing, but outputs may be
 * partly written; *done is NULL then. */
CLATTN_API clattn_status clattn_enqueue_forward(const clattn_plan *plan, cl_command_queue queue,
                                                const clattn_call *call, const clattn_tensors *tensors, cl_uint n_wait,
                                                const cl_event *wait, cl_event *done);

/* Blocking, on host memory: computes on the context's device. Plans of the last few problems are kept in the context.
 * Only elements that the strides reach are written.
 *
 * All calls on host memory, here and in the other headers, use it where it lies, without a copy, where the device
 * computes in the host's memory (PoCL does on CPUs; it is tried when the context is made, clattn_plan_explain tells).
 * Any view will do: of a larger array, at any offset, with strides of 0. Copied are, nevertheless: a tensor that does
 * not lie at a multiple of its element's size; an output in whose span (its first byte to its last) another tensor of
 * the call has bytes; packed weights of layers. While a call runs, the memory of its inputs must not change and nobody
 * else may use that of its outputs; other calls may read the same inputs. */
CLATTN_API clattn_status clattn_forward_host(clattn_context *context, const clattn_problem *problem,
                                             const clattn_call *call, const clattn_host_tensors *tensors);

/* As clattn_enqueue_forward, on host memory, which must stay until the call is done: only then are outputs to be read.
 * What has values that shapes depend on (key_lengths, cu_query, cu_key, page_table, page_starts) is read at once as
 * well. Buffers and the workspace are the call's own. An output that must be copied has to be dense, without gaps
 * between its elements: CLATTN_UNSUPPORTED. After an error inputs may still be read and outputs written until the queue
 * is finished. */
CLATTN_API clattn_status clattn_enqueue_host(const clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                             const clattn_host_tensors *tensors, cl_uint n_wait, const cl_event *wait,
                                             cl_event *done);

/* Bytes that calls on host memory have copied, in and out, since the context was made; of calls that other threads make
 * meanwhile too. NULL: 0. */
CLATTN_API uint64_t clattn_bytes_copied(const clattn_context *context);

/* The common case in one blocking call: dense host tensors of one type,
 *   query [batch, query_heads, query_len, head_dim], key and value [batch, kv_heads, key_len, head_dim],
 *   out like query; scale 1 / sqrt(head_dim).
 * `causal` is CLATTN_ALIGN_UNSET for no causal mask, else its alignment (not CLATTN_ALIGN_OFFSETS). */
CLATTN_API clattn_status clattn_attention(clattn_context *context, clattn_type type, int64_t batch, int64_t query_heads,
                                          int64_t kv_heads, int64_t query_len, int64_t key_len, int64_t head_dim,
                                          clattn_alignment causal, const void *query, const void *key,
                                          const void *value, void *out);

/* The definition of what is right: the same computation in float64 on the CPU, without OpenCL and
 * without a context; outputs are rounded to their types. Slow. Blocking. */
CLATTN_API clattn_status clattn_reference_forward(const clattn_problem *problem, const clattn_call *call,
                                                  const clattn_host_tensors *tensors);

/* One of several results over disjoint sets of keys. */
typedef struct clattn_partial {
    clattn_tensor out; /* [batch, heads, rows, columns] */
    clattn_tensor lse; /* [batch, heads, rows], float32 (stride[3] not used); -inf: the row saw no key, and its out is
                        * not read */
} clattn_partial;

/* Start from CLATTN_MERGE_PROBLEM_INIT. */
typedef struct clattn_merge_problem {
    size_t struct_size;
    clattn_type type;           /* of the partials' out */
    clattn_type out_type;       /* of the merged out; CLATTN_TYPE_NONE: `type`. Any of float32, float16 and bfloat16 go
                                 * together; float64 goes with itself only */
    int64_t batch, heads, rows; /* >= 0 */
    int64_t columns;            /* >= 1 */
} clattn_merge_problem;

#define CLATTN_MERGE_PROBLEM_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(clattn_merge_problem), CLATTN_FLOAT32, CLATTN_TYPE_NONE, 1, 1, 0, 0                                     \
    }
CLATTN_API void clattn_merge_problem_init(clattn_merge_problem *problem, size_t struct_size);

/* Partials of one command; more of them are merged by several. */
#define CLATTN_MERGE_AT_ONCE 8

/* Combines attention over disjoint sets of keys, partials[0 .. count), into attention over all of them:
 *     lse = ln(sum_n exp(lse_n)),  out = sum_n exp(lse_n - lse) out_n
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, section 3.1), always in the order of the
 * array. count >= 1; no error grows with it. Beyond CLATTN_MERGE_AT_ONCE the call has a buffer of its own until it is
 * done, of 2 columns + 3 numbers a row, float32 or float64, and for each row and column the sum of |out| over the
 * partials must be at most 1e38 (1e308). merged->out and lse may be the buffers of a partial of the same strides and
 * type. Enqueues; the first call in a context for two types compiles and so may block. */
CLATTN_API clattn_status clattn_merge(clattn_context *context, cl_command_queue queue,
                                      const clattn_merge_problem *problem, int64_t count,
                                      const clattn_partial *partials, const clattn_partial *merged, cl_uint n_wait,
                                      const cl_event *wait, cl_event *done);

/* The standard ALiBi slopes for any number of heads: 2^(-8 (i + 1) / n) for n = heads when that is a
 * power of two; else those of the next lower power of two, followed by every other one of the next
 * higher (Press et al., "Train Short, Test Long", 2021, and its published code). */
CLATTN_API clattn_status clattn_alibi_slopes(int64_t heads, float *slopes);

#ifdef __cplusplus
}
#endif

#endif
