/* Lists of the keys that rows see. */
#include "attention_cache.h"
#include "attention_extras.h"

int attention_prepare_lists(const struct options *options, struct inputs *inputs, struct attention *attention,
                            struct failure *failure)
{
    static const enum option_id needed[] = { OPTION_KEY_LISTS, OPTION_NONE };
    struct tensor *lists = &inputs->tensor[ROLE_KEY_LISTS];
    clattn_problem *p = &attention->problem;
    int64_t rows = 1;
    if (option_integer(options, OPTION_LIST_ROWS, 1, INT32_MAX, &rows, failure) != 0) {
        return -1;
    }
    if (!lists->data) {
        return option_needs(options, OPTION_LIST_ROWS, needed, failure);
    }
    const int64_t *shape = lists->shape, blocks = (attention->query.rows + rows - 1) / rows;
    if (lists->dims != 4 || (shape[0] != 1 && shape[0] != p->batch) || (shape[1] != 1 && shape[1] != p->kv_heads) ||
        shape[2] < blocks) {
        char text[TENSOR_SHAPE_TEXT];
        return failure_misuse(failure,
                              "key_lists: shape %s: must be [%lld or 1, %lld or 1, %lld lists of --list-rows %lld, "
                              "keys]",
                              tensor_shape_text(lists, text), (long long)p->batch, (long long)p->kv_heads,
                              (long long)blocks, (long long)rows);
    }
    if (attention_convert_integers(lists, "key_lists", INT32_MIN, INT32_MAX, failure) != 0) {
        return -1;
    }
    p->features |= CLATTN_WITH_KEY_LISTS;
    p->key_list_rows = rows;
    p->key_list_keys = shape[3];
    attention->host.key_lists.data = lists->data;
    clattn_strides_bhsd(shape[1], shape[2], shape[3], attention->host.key_lists.stride);
    for (int axis = 0; axis < 2; axis++) {
        attention->host.key_lists.stride[axis] *= shape[axis] > 1;
    }
    return 0;
}
