/* From a validated call to the struct that kernels take. */
#include "operation/fill_params.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define AGREES(cl, c) _Static_assert((int)(cl) == (int)(c), #cl " must equal " #c)
AGREES(CLATTN_CL_FLOAT32, CLATTN_FLOAT32);
AGREES(CLATTN_CL_FLOAT16, CLATTN_FLOAT16);
AGREES(CLATTN_CL_BFLOAT16, CLATTN_BFLOAT16);
AGREES(CLATTN_CL_FLOAT64, CLATTN_FLOAT64);
AGREES(CLATTN_CL_INT8, CLATTN_INT8);
AGREES(CLATTN_CL_E4M3, CLATTN_E4M3);
AGREES(CLATTN_CL_E5M2, CLATTN_E5M2);
AGREES(CLATTN_CL_Q8_0, CLATTN_Q8_0);
AGREES(CLATTN_CL_Q4_0, CLATTN_Q4_0);
AGREES(CLATTN_CL_Q4_1, CLATTN_Q4_1);
AGREES(CLATTN_CL_Q5_0, CLATTN_Q5_0);
AGREES(CLATTN_CL_Q5_1, CLATTN_Q5_1);
AGREES(CLATTN_CL_MXFP4_GGML, CLATTN_MXFP4_GGML);
AGREES(CLATTN_CL_NVFP4_GGML, CLATTN_NVFP4_GGML);
AGREES(CLATTN_CL_INT4, CLATTN_INT4);
AGREES(CLATTN_CL_U8, CLATTN_U8);
AGREES(CLATTN_CL_U4, CLATTN_U4);
AGREES(CLATTN_CL_MXFP8, CLATTN_MXFP8);
AGREES(CLATTN_CL_MXFP4, CLATTN_MXFP4);
AGREES(CLATTN_CL_NVFP4, CLATTN_NVFP4);
AGREES(CLATTN_CL_ALIGN_TOP_LEFT, CLATTN_ALIGN_TOP_LEFT);
AGREES(CLATTN_CL_ALIGN_BOTTOM_RIGHT, CLATTN_ALIGN_BOTTOM_RIGHT);
AGREES(CLATTN_CL_ALIGN_OFFSETS, CLATTN_ALIGN_OFFSETS);
AGREES(CLATTN_CL_WEIGHTS_SCORES, CLATTN_WEIGHTS_SCORES);
AGREES(CLATTN_CL_WEIGHTS_SOFTCAP, CLATTN_WEIGHTS_SOFTCAP);
AGREES(CLATTN_CL_WEIGHTS_LOGITS, CLATTN_WEIGHTS_LOGITS);
AGREES(CLATTN_CL_WEIGHTS_SOFTMAX, CLATTN_WEIGHTS_SOFTMAX);
_Static_assert(offsetof(clattn_params, place) % 8 == 0, "kernels and host must agree on the layout");

clattn_i64 real_bits(clattn_type type, double value)
{
    const float rounded = (float)value;
    clattn_u32 single;
    clattn_i64 bits;
    memcpy(&single, &rounded, sizeof(single));
    memcpy(&bits, &value, sizeof(bits));
    return type == CLATTN_FLOAT64 ? bits : (clattn_i64)single;
}

static void fill_dropout(const clattn_problem *p, const struct call *call, clattn_params *params)
{
    double threshold = ceil(p->dropout * 4294967296.0);
    params->keep_scale_real = real_bits(p->type, 1.0 / (1.0 - p->dropout));
    params->dropout_threshold = threshold > 4294967295.0 ? 4294967295u : (clattn_u32)threshold;
    params->dropout_seed[0] = (clattn_u32)call->dropout_seed;
    params->dropout_seed[1] = (clattn_u32)(call->dropout_seed >> 32);
    params->dropout_offset = call->dropout_offset;
    params->first_plane = call->first_plane;
    params->first_row = call->first_row;
    params->first_key = call->first_key;
    params->whole_heads = call->whole_heads;
}

/* Not so small that a device might take it, or a quarter of it, or one over that, for 0 or infinity. By either cap all
 * logits are 0 to softmax. */
static double safe_softcap(const clattn_problem *p)
{
    return p->softcap > 0 ? fmax(p->softcap, p->type == CLATTN_FLOAT64 ? 0x1p-1000 : 0x1p-120) : 0;
}

size_t params_fill(const struct problem *problem, const struct call *call, uint32_t groups, clattn_params *params)
{
    const clattn_problem *p = &problem->p;
    params->scale_real = real_bits(p->type, call->scale);
    params->softcap_real = real_bits(p->type, safe_softcap(p));
    params->batch = (int)p->batch;
    params->query_heads = (int)p->query_heads;
    params->kv_heads = (int)p->kv_heads;
    params->query_len = (int)call->query_len;
    params->key_len = (int)call->key_len;
    params->head_dim = (int)p->head_dim;
    params->head_dim_v = (int)p->head_dim_v;
    params->mask_first_key = (int)call->mask_first_key;
    params->mask_key_len = (int)call->mask_key_len;
    params->bias_key_len = (int)call->bias_key_len;
    params->unused_length = 0;
    params->alignment = (clattn_i8)(p->alignment == CLATTN_ALIGN_UNSET ? CLATTN_ALIGN_TOP_LEFT : p->alignment);
    params->window_left = (int)p->window_left;
    params->window_right = (int)p->window_right;
    params->always_visible_keys = (int)p->always_visible_keys;
    params->page_size = (int)p->page_size;
    params->pages = (int)p->pages;
    params->ring = (int)p->ring;
    params->flags = problem->flags;
    params->bias_type = (clattn_i8)p->bias_type;
    params->weights = (clattn_i8)p->weights;
    memset(params->unused, 0, sizeof(params->unused));
    fill_dropout(p, call, params);
    return offsetof(clattn_params, place) +
           sizeof(params->place[0]) * operands_number(&call->operands, forward_tensors(groups), params->place);
}
