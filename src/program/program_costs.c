#include "program/program_costs.h"

#include "base/error.h"
#include "program/program_binary.h"
#include "program/program_parts.h"

/* With the context's program lock held. */
static uint64_t count(const clattn_context *context)
{
    uint64_t built = 0;
    for (const struct program *p = context->programs; p; p = p->next) {
        built += p->state == BUILT;
    }
    return built;
}

void program_costs_add(clattn_context *context, clattn_context_costs *costs)
{
    pthread_mutex_lock(&context->program_lock);
    for (const struct program *p = context->programs; p; p = p->next) {
        if (p->state == BUILT) {
            costs->programs++;
            costs->compiled += p->is_compiled != 0;
            costs->compile_ms += p->compile_ms;
        }
    }
    pthread_mutex_unlock(&context->program_lock);
}

/* Built ones come to the list's beginning, one after the other: their numbers stay. */
static const struct program *find(const clattn_context *context, uint64_t index)
{
    uint64_t left = count(context);
    for (const struct program *p = context->programs; p; p = p->next) {
        if (p->state == BUILT && --left == index) {
            return p;
        }
    }
    return NULL;
}

clattn_status program_costs_of(clattn_context *context, uint64_t index, clattn_program_costs *costs)
{
    cl_program cl = NULL;
    pthread_mutex_lock(&context->program_lock);
    const uint64_t programs = count(context);
    const struct program *program = find(context, index);
    if (program) { /* it stays as long as the context: only its kernels become more */
        cl = program->cl;
        costs->file = program->file;
        costs->options = program->options;
        costs->compile_ms = program->compile_ms;
        costs->is_compiled = program->is_compiled;
        for (const struct kernel *k = program->kernels; k; k = k->next) {
            costs->kernels++;
        }
    }
    pthread_mutex_unlock(&context->program_lock);
    if (!cl) {
        return error_set(CLATTN_INVALID_ARGUMENT, "index %llu: must be below %llu, the programs of the context",
                         (unsigned long long)index, (unsigned long long)programs);
    }
    costs->binary_bytes = program_binary_bytes(cl, context->device.id); /* may take long: not with the lock */
    return CLATTN_OK;
}
