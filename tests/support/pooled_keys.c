/* Cutting a pool into buffers, element by element. */
#include "pooled_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operation/pools.h"

int64_t pooled_call_pages(int64_t pages, int pools, int64_t fill)
{
    const int64_t least = (pages + pools - 1) / pools, most = pools > 1 ? (pages - 1) / (pools - 1) : pages;
    return pages < 1 || least > most ? 0 : least + fill % (most - least + 1);
}

/* The elements of pages [first, first + n[0]), of the test's array into one of its own, further behind by `moved`. */
static void copy_pages(const struct test_array *from, const clattn_host_tensor *tensor, int64_t first,
                       const int64_t n[4], int64_t block, int64_t moved, unsigned char *to)
{
    const size_t bytes = from->element_bytes;
    for (int64_t at = 0; at < n[0] * n[1] * n[2]; ++at) {
        const int64_t i = at % n[2], h = at / n[2] % n[1], page = first + at / n[2] / n[1];
        for (int64_t c = 0; c < n[3]; c += block) {
            const int64_t index = (tensor->offset + page * tensor->stride[0] + h * tensor->stride[1] +
                                   i * tensor->stride[2] + c * tensor->stride[3]) /
                                  block;
            memcpy(to + (size_t)(index + moved) * bytes, from->data + (size_t)index * bytes, bytes);
        }
    }
}

/* Where the buffers begin, in elements: before and behind the first one, keys and values each elsewhere; alike in
 * memory, or not, as vectors of 16 bytes see it. */
static int64_t lead_of(enum tensor_id id, int pool, int64_t pool_pages)
{
    static const int64_t leads[2][CLATTN_POOLS_MOST] = { { 5, 0, 9, 2 }, { 1, 7, 0, 4 } };
    return leads[id == TENSOR_VALUE][pool] * (pool_pages % 2 ? 64 : 1);
}

static void cut_one(const struct test_call *test, enum tensor_id id, int pool, struct pooled_call *cut)
{
    const struct test_array *from = &test->arrays[test->array_of[id]];
    const int64_t block = clattn_type_columns(from->type), pages = test->pool_pages;
    const int64_t first = pool * pages, lead = lead_of(id, pool, pages);
    struct pooled_array *array = &cut->arrays[cut->count++];
    int64_t n[4];
    test_call_shape(test, id, n);
    n[0] = pools_pages(cut->problem.pages, pages, pool);
    array->id = pool == 0          ? id
                : id == TENSOR_KEY ? (enum tensor_id)(TENSOR_KEY_POOL_1 + pool - 1)
                                   : (enum tensor_id)(TENSOR_VALUE_POOL_1 + pool - 1);
    array->bytes = (size_t)(from->count + lead) * from->element_bytes;
    array->data = malloc(array->bytes + 1);
    if (!array->data) {
        fprintf(stderr, "tests: out of memory\n");
        exit(1);
    }
    memset(array->data, 0xff, array->bytes);
    const clattn_host_tensor *tensor = host_tensor_of((clattn_host_tensors *)&test->tensors, (int)id);
    /* Pages of values lie where they lay in one buffer; those of keys begin at their own buffer's first. */
    const int64_t skipped = id == TENSOR_KEY ? first * tensor->stride[0] / block : 0;
    copy_pages(from, tensor, first, n, block, lead - skipped, array->data);
    clattn_host_tensor *to = host_tensor_of(&cut->tensors, (int)array->id);
    *to = *tensor;
    to->data = array->data;
    to->offset += first * tensor->stride[0] + (lead - skipped) * block;
}

void pooled_call_cut(const struct test_call *test, struct pooled_call *cut)
{
    memset(cut, 0, sizeof(*cut));
    cut->problem = test->problem;
    cut->tensors = test->tensors;
    cut->problem.pool_pages = test->pool_pages;
    for (int pool = 0; test->pool_pages > 0 && test->tensors.key.data && pool < pools_of(&cut->problem); ++pool) {
        cut_one(test, TENSOR_KEY, pool, cut);
        cut_one(test, TENSOR_VALUE, pool, cut);
    }
}

void pooled_call_free(struct pooled_call *cut)
{
    for (int i = 0; i < cut->count; ++i) {
        free(cut->arrays[i].data);
    }
    cut->count = 0;
}
