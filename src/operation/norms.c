/* The rules on RMS norms of rows. */
#include "operation/norms.h"

#include <float.h>

#include "base/decimal.h"
#include "base/error.h"
#include "cl/cache/rotary_params.h"

#define AGREES(name)                                                                                                   \
    _Static_assert(CLATTN_CL_WITH_##name == (unsigned)CLATTN_WITH_##name, "CLATTN_CL_WITH_" #name " must equal it")
AGREES(NORM);
AGREES(QUERY_NORM);
AGREES(KEY_NORM);
AGREES(VALUE_NORM);
AGREES(NORM_WEIGHTS);

/* Values have no weights. */
#define WEIGHTED_NORMS (NORMS & ~(uint32_t)CLATTN_WITH_VALUE_NORM)

clattn_status norms_check(const struct norms *norms, int inverse)
{
    if (norms->features & CLATTN_WITH_NORM_WEIGHTS && !(norms->features & WEIGHTED_NORMS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features 0x%x: CLATTN_WITH_NORM_WEIGHTS without a norm that has weights would be ignored",
                         norms->features);
    }
    if (!norms_are_there(norms)) {
        if (norms->epsilon == 0) {
            return CLATTN_OK;
        }
        return error_set(CLATTN_INVALID_ARGUMENT, "norm_epsilon %s: would be ignored without a norm; leave it 0",
                         DECIMAL(norms->epsilon));
    }
    if (!(norms->epsilon >= (double)FLT_MIN && norms->epsilon <= (double)FLT_MAX)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "norm_epsilon %s: must be %s to %s, as the model's configuration has it (rms_norm_eps)",
                         DECIMAL(norms->epsilon), DECIMAL((double)FLT_MIN), DECIMAL((double)FLT_MAX));
    }
    if (inverse) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "inverse %d: a row that was normed cannot be turned back to what it was; set one of both",
                         inverse);
    }
    return CLATTN_OK;
}

void norms_describe(const struct norms *norms, struct text *text)
{
    static const struct {
        uint32_t feature;
        const char *rows;
    } all[] = { { CLATTN_WITH_NORM, "rows" },
                { CLATTN_WITH_QUERY_NORM, "queries" },
                { CLATTN_WITH_KEY_NORM, "keys" },
                { CLATTN_WITH_VALUE_NORM, "values" } };
    const char *before = ", normed: ";
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (norms->features & all[i].feature) {
            const int is_weighted = norms->features & CLATTN_WITH_NORM_WEIGHTS && all[i].feature & WEIGHTED_NORMS;
            text_append(text, "%s%s%s", before, all[i].rows, is_weighted ? " with weights" : "");
            before = ", ";
        }
    }
}
