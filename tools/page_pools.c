#include "page_pools.h"

#include <math.h>
#include <stdio.h>

#include "insides.h"

int page_pools_read(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    const enum option_id pages[] = { OPTION_PAGE_SIZE, OPTION_NONE };
    int64_t pools = 1;
    if (option_needs(options, OPTION_POOLS, pages, failure) != 0 ||
        option_integer(options, OPTION_POOLS, 1, CLATTN_POOLS_MOST, &pools, failure) != 0) {
        return -1;
    }
    problem->pool_pages = pools > 1 ? (problem->pages + pools - 1) / pools : 0;
    if (pools_of(problem) != pools) {
        return failure_misuse(failure,
                              "--pools %lld: %lld pages cannot be in so many buffers that are all alike but for the "
                              "last, which may have fewer",
                              (long long)pools, (long long)problem->pages);
    }
    return 0;
}

/* Bytes of a page of keys or of values, whichever are more. A double: shapes of commands may be of any size. */
static double page_bytes(const clattn_problem *p)
{
    const size_t key = clattn_row_bytes(p->key_type ? p->key_type : p->type, p->head_dim);
    const size_t value = clattn_row_bytes(p->value_type ? p->value_type : p->type, p->head_dim_v);
    return (double)(key > value ? key : value) * (double)p->kv_heads * (double)p->page_size;
}

void page_pools_fit(const struct options *options, const clattn_context *context, clattn_problem *p)
{
    cl_ulong most_bytes = 0;
    const double bytes = page_bytes(p);
    if (p->page_size == 0 || options->value[OPTION_POOLS] ||
        clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most_bytes, &most_bytes,
                        NULL) != CL_SUCCESS ||
        bytes * (double)p->pages <= (double)most_bytes) {
        return;
    }
    const double fit = floor((double)most_bytes / bytes), pools = fit > 0 ? ceil((double)p->pages / fit) : INFINITY;
    if (pools <= CLATTN_POOLS_MOST) {
        p->pool_pages = (p->pages + (int64_t)pools - 1) / (int64_t)pools;
    }
}

void page_pools_place(const clattn_problem *p, clattn_host_tensors *tensors)
{
    for (int pool = 1; pool < pools_of(p); pool++) {
        clattn_host_tensor *key = &tensors->key_pools[pool - 1], *value = &tensors->value_pools[pool - 1];
        *key = tensors->key;
        *value = tensors->value;
        key->offset += pool * p->pool_pages * key->stride[0];
        value->offset += pool * p->pool_pages * value->stride[0];
    }
}

const char *page_pools_text(const clattn_problem *p, char text[PAGE_POOLS_TEXT])
{
    const int last = pools_of(p) - 1;
    snprintf(text, PAGE_POOLS_TEXT, "%d buffers of %lld pages, the last of %lld", last + 1, (long long)p->pool_pages,
             (long long)pools_pages(p->pages, p->pool_pages, last));
    return text;
}

void page_pools_tell(cJSON *object, const clattn_problem *p)
{
    cJSON_AddNumberToObject(object, "pools", pools_of(p));
    cJSON_AddNumberToObject(object, "pool_pages", (double)pools_pages(p->pages, p->pool_pages, 0));
}
