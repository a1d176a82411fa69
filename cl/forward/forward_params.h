/* The values of one call, handed to every attention kernel by value; C and OpenCL C both include this.
 *
 * Offsets and strides count elements, of block types blocks. A kernel finds element (b, h, i, c) of a tensor at
 *     buffer[offset + b * stride[0] + h * stride[1] + i * stride[2] + c * stride[3]]
 * in 64 bits; varlen adds the sequence's first row (cu[b]) to i and has stride[0] = 0; keys and values in pages are
 * found by forward/kv_rows.clh. Filled by src/operation/fill_params.c from the problem and the call. Absent tensors of
 * a group that is taken: zeros, and a NULL pointer. */
#ifndef CLATTN_FORWARD_PARAMS_H
#define CLATTN_FORWARD_PARAMS_H

#include "forward/forward_flags.h"
#include "forward/forward_places.h"

#ifdef __OPENCL_VERSION__
typedef long clattn_i64;
typedef uint clattn_u32;
typedef char clattn_i8;
#else
#include <stdint.h>
typedef int64_t clattn_i64;
typedef uint32_t clattn_u32;
typedef int8_t clattn_i8;
#endif

/* Values of enum clattn_type, clattn_alignment and clattn_weights for kernels; src/operation/fill_params.c asserts
 * that they agree. */
#define CLATTN_CL_FLOAT32 1
#define CLATTN_CL_FLOAT16 2
#define CLATTN_CL_BFLOAT16 3
#define CLATTN_CL_FLOAT64 4
#define CLATTN_CL_INT8 5
#define CLATTN_CL_E4M3 6
#define CLATTN_CL_E5M2 7
#define CLATTN_CL_Q8_0 8
#define CLATTN_CL_Q4_0 9
#define CLATTN_CL_Q4_1 10
#define CLATTN_CL_Q5_0 11
#define CLATTN_CL_Q5_1 12
#define CLATTN_CL_MXFP4_GGML 13
#define CLATTN_CL_NVFP4_GGML 14
#define CLATTN_CL_INT4 15
#define CLATTN_CL_U8 16
#define CLATTN_CL_U4 17
#define CLATTN_CL_MXFP8 18
#define CLATTN_CL_MXFP4 19
#define CLATTN_CL_NVFP4 20
#define CLATTN_CL_ALIGN_TOP_LEFT 1
#define CLATTN_CL_ALIGN_BOTTOM_RIGHT 2
#define CLATTN_CL_ALIGN_OFFSETS 3
#define CLATTN_CL_WEIGHTS_SCORES 1
#define CLATTN_CL_WEIGHTS_SOFTCAP 2
#define CLATTN_CL_WEIGHTS_LOGITS 3
#define CLATTN_CL_WEIGHTS_SOFTMAX 4

/* More than there are of any axis of a scale, and a multiple of 16: a divisor, since one of 0 may not be asked about
 * beside the division (Intel's compiler for CPUs divided first). */
#define CLATTN_ALL_SHARE 0x7ffffff0

typedef struct clattn_params {
    /* PARAM_REAL of common/types.clh: the bits of a double where the type is float64, else of a float in the lower
     * half. */
    clattn_i64 scale_real, softcap_real; /* softcap 0: none */
    clattn_i64 keep_scale_real;          /* 1 / (1 - dropout) */
    int batch, query_heads, kv_heads;
    int query_len, key_len; /* of this call; varlen: the longest that is computed */
    int head_dim, head_dim_v;
    int mask_first_key, mask_key_len; /* of key_len: mask and bias are of keys from mask_first_key on */
    int bias_key_len, unused_length;
    int window_left, window_right;  /* -1: no bound */
    int always_visible_keys;
    int page_size, pages; /* keys of a page, pages of the pool */
    int ring; /* rows kept of a sequence; 0: all */
    clattn_u32 flags; /* CLATTN_FLAG_* */
    clattn_i8 alignment; /* CLATTN_CL_ALIGN_*; top left when nothing needs one */
    clattn_i8 bias_type, weights, unused[5];
    clattn_u32 dropout_threshold; /* a weight is dropped where the word is below it */
    clattn_u32 dropout_seed[2], dropout_offset;
    clattn_u32 first_plane, first_row, first_key; /* what dropout counts from: a call may be a slice of a problem */
    clattn_u32 whole_heads;                       /* heads of a batch entry of that problem */
    clattn_i64 place[CLATTN_PLACE_NUMBERS];       /* of the tensors that are taken (forward_places.h) */
} clattn_params;

#define CLATTN_POOLS_MOST 4

/* Beside those, where a pool is of several buffers: the pages of each, and how many elements behind the first buffer's
 * its own page 0 begins. 40 bits of them, the highest apart, because all arguments must fit 1,024 bytes. */
typedef struct clattn_pools {
    clattn_u32 key_shift[CLATTN_POOLS_MOST - 1], value_shift[CLATTN_POOLS_MOST - 1];
    int pages;
    clattn_i8 key_shift_high[CLATTN_POOLS_MOST - 1], value_shift_high[CLATTN_POOLS_MOST - 1];
    clattn_i8 unused[2];
} clattn_pools;

#define CLATTN_POOL_SHIFT_BITS 40

#endif
