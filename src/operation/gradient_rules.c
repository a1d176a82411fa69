/* The rules on gradients, and the tensors that are asked for. */
#include "operation/gradient_rules.h"

#include "base/error.h"

static uint32_t known(const struct gradients *all)
{
    uint32_t bits = 0;
    for (int i = 0; i < all->count; ++i) {
        bits |= all->rows[i].gradient;
    }
    return bits;
}

static clattn_status check_accumulate(uint32_t accumulate, uint32_t gradients)
{
    return (accumulate & ~gradients) == 0
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT, "accumulate 0x%x: has gradients that are not asked for: 0x%x",
                           accumulate, accumulate & ~gradients);
}

clattn_status gradients_check(const struct gradients *all, uint32_t gradients, uint32_t accumulate)
{
    return gradients != 0 && (gradients & ~known(all)) == 0
               ? check_accumulate(accumulate, gradients)
               : error_set(CLATTN_INVALID_ARGUMENT, "gradients 0x%x: must be one or more of %s_*", gradients,
                           all->kind);
}

clattn_status gradients_check_type(clattn_type given, clattn_type type)
{
    return given == CLATTN_TYPE_NONE || (given == CLATTN_FLOAT32 && type != CLATTN_FLOAT64)
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT, "gradient_type %d: must be CLATTN_TYPE_NONE%s", (int)given,
                           type == CLATTN_FLOAT64 ? " with type float64" : " or CLATTN_FLOAT32");
}

clattn_status gradients_check_sums(uint32_t accumulate, const char *what, clattn_type type)
{
    return !accumulate || type == CLATTN_FLOAT32 || type == CLATTN_FLOAT64
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT,
                           "accumulate 0x%x: %s %s, and sums in 16 bits would lose what is added; set gradient_type to "
                           "CLATTN_FLOAT32",
                           accumulate, what, clattn_type_name(type));
}

const char *gradients_name(const struct gradients *all, uint32_t gradient)
{
    int i = 0;
    while (i + 1 < all->count && all->rows[i].gradient != gradient) {
        ++i;
    }
    return all->rows[i].name;
}

void gradients_ask(const struct gradients *all, uint32_t gradients, uint32_t accumulate, struct operands *operands)
{
    for (int i = 0; i < all->count; ++i) {
        const uint32_t gradient = all->rows[i].gradient;
        const uint64_t tensor = 1ull << (all->first + i);
        operands->asked |= gradients & gradient ? tensor : 0;
        operands->unread |= gradient & ~accumulate ? tensor : 0;
    }
}
