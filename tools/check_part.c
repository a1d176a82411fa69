#include "check_part.h"

int64_t check_sample(int n, int64_t count)
{
    return n * (count - 1) / (CHECK_SAMPLES - 1);
}

clattn_problem check_part_problem(const clattn_problem *whole, int64_t length, const struct check_part *part,
                                  int32_t *offset)
{
    const int64_t aligned = whole->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? length - whole->query_len : 0;
    const int64_t always = whole->always_visible_keys - part->first_key;
    clattn_problem p = *whole;
    p.batch = 1;
    p.query_len = part->rows;
    p.key_len = part->keys;
    p.always_visible_keys = always > 0 ? always : 0;
    p.alignment = p.alignment != CLATTN_ALIGN_UNSET ? CLATTN_ALIGN_OFFSETS : CLATTN_ALIGN_UNSET;
    *offset = (int32_t)(aligned + part->first_row - part->first_key);
    return p;
}
