/* A plan that is made of steps: kernels, and other plans (its children), in one chain of commands and on one workspace,
 * which is cut into sections. Steps are recorded when the plan is made, and sections grow to what they write; a call
 * walks through the steps and says where its tensors are. */
#ifndef CLATTN_SRC_STEPS_H
#define CLATTN_SRC_STEPS_H

#include "operation/call.h"
#include "plan/enqueue.h"

#define STEPS_SECTIONS_MAX 32
#define STEPS_CHILDREN_MAX 2
#define STEP_PLACES 4
#define STEP_COUNTS 7

/* Where a step finds rows of `stride` elements, from element `offset` on: in a tensor of the call, or in a section. */
struct place {
    int at; /* PLACE_OF_TENSOR, PLACE_OF_SECTION; 0: nowhere */
    int64_t offset, stride;
};
#define PLACE_OF_TENSOR(id) ((id) + 1)
#define PLACE_OF_SECTION(section) (-1 - (section))

/* A place in one call. */
struct matrix {
    cl_mem buffer; /* NULL: nowhere */
    int64_t offset, stride;
};

/* One call of the steps. */
struct run {
    const struct steps *steps;
    const struct operands *operands;
    cl_mem child_workspace[STEPS_CHILDREN_MAX];
    struct chain *chain;
};

struct step;
typedef clattn_status step_enqueue(const struct step *step, const struct run *run);

/* A child's call: its tensors by the places of the whole, on its own workspace. `of`: of the step. */
typedef clattn_status step_call(const void *of, const struct run *run, cl_mem workspace, struct call *call);

struct step {
    step_enqueue *enqueue;
    const void *of; /* what `enqueue` has kernels of; outlives the steps */
    struct place place[STEP_PLACES];
    int64_t count[STEP_COUNTS]; /* such as rows, columns, depth */
    int flag;
    int child;       /* number of a child, for steps_child() */
    step_call *call; /* of a child */
};

struct steps {
    clattn_context *context;
    struct step *step;
    size_t count, room;
    clattn_status status; /* the first failure while steps were recorded */
    struct clattn_plan *child[STEPS_CHILDREN_MAX];
    int child_section[STEPS_CHILDREN_MAX];
    int64_t element_bytes[STEPS_SECTIONS_MAX],
        bytes[STEPS_SECTIONS_MAX]; /* of sections; bytes below 0: beyond 64 bits */
    size_t section_at[STEPS_SECTIONS_MAX];
    size_t workspace_bytes;
};

/* Sections have elements of `element_bytes` where steps_section_elements() says nothing else. */
void steps_begin(struct steps *steps, clattn_context *context, size_t element_bytes);
void steps_free(struct steps *steps); /* and the children */
void steps_section_elements(struct steps *steps, int section, size_t element_bytes);

/* A section has room for rows of `stride` elements from `place` on; nothing where the place is in a tensor. */
void steps_need(struct steps *steps, struct place place, int64_t rows, int64_t stride);

/* Plans a child, which works in a section of its own, or in that of another one. */
clattn_status steps_plan_child(struct steps *steps, int child, int section, const struct any_problem *problem);

/* Appends a step. Where memory ends, steps->status says so. */
void steps_add(struct steps *steps, const struct step *step);
void steps_add_child(struct steps *steps, int child, step_call *call, const void *of);

/* Places the sections, once all steps are recorded; then the children and kernels are rehearsed, with these operands as
 * the largest call. An error where the device has not so much memory. */
clattn_status steps_end(struct steps *steps, const struct operands *largest);

struct matrix steps_matrix(const struct run *run, struct place place);
clattn_status steps_enqueue(const struct steps *steps, const struct enqueue_target *target,
                            const struct operands *operands);

/* For strides over axes that may have no element: a stride of 0 would look like a broadcast. */
static inline int64_t at_least_1(int64_t extent)
{
    return extent > 0 ? extent : 1;
}

#endif
