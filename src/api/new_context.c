/* Puts a context together. */
#include "api/new_context.h"

#include "plan/kept_plans.h"
#include "plan/ladder.h"
#include "plan/wisdom_store.h"

clattn_status new_context(cl_context cl, cl_device_id device, const clattn_context_options *options,
                          clattn_context **result)
{
    clattn_context *context;
    clattn_status status = context_create(cl, device, options, &context);
    if (status != CLATTN_OK) {
        return status;
    }
    kept_plans_create(context);
    status = ladder_create(context);
    if (status == CLATTN_OK) {
        status = wisdom_create(context);
    }
    if (status != CLATTN_OK) {
        context_destroy(context);
        return status;
    }
    *result = context;
    return CLATTN_OK;
}
