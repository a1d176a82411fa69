/* The exported functions of clattn_group.h. */
#include <stdlib.h>
#include <string.h>

#include "api/entry.h"
#include "api/group.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/text.h"
#include "base/uncancelled.h"
#include "device/device_list.h"
#include "device/environment.h"
#include "operation/backward.h"
#include "program/context.h"

/* ---- groups ----------------------------------------------------------------------------------- */

clattn_status clattn_group_create(size_t count, clattn_context *const *contexts, clattn_group **group)
{
    UNCANCELLED;
    REQUIRE(group);
    *group = NULL;
    REQUIRE(contexts);
    if (count < 1 || count > CLATTN_GROUP_MOST) {
        return error_set(CLATTN_INVALID_ARGUMENT, "count %zu: must be 1 to %d contexts", count, CLATTN_GROUP_MOST);
    }
    for (size_t n = 0; n < count; ++n) {
        if (!contexts[n]) {
            return error_set(CLATTN_INVALID_ARGUMENT, "contexts[%zu]: must not be NULL", n);
        }
        for (size_t before = 0; before < n; ++before) {
            if (contexts[before] == contexts[n]) {
                return error_set(CLATTN_INVALID_ARGUMENT,
                                 "contexts[%zu]: is contexts[%zu] too; a context is in a group once", n, before);
            }
        }
    }
    clattn_group *new_group = calloc(1, sizeof(*new_group));
    if (!new_group || pthread_mutex_init(&new_group->lock, NULL) != 0) {
        free(new_group);
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a group");
    }
    new_group->count = count;
    memcpy(new_group->context, contexts, count * sizeof(*contexts));
    *group = new_group;
    return CLATTN_OK;
}

/* Opens the contexts that `names` names, which is cut up. */
static clattn_status open_all(char *names, const clattn_context_options *options, clattn_context **contexts,
                              size_t *count)
{
    clattn_status status = CLATTN_OK;
    for (char *name; status == CLATTN_OK && (name = device_name_next(&names)) != NULL;) {
        if (*count == CLATTN_GROUP_MOST) {
            return error_set(CLATTN_INVALID_ARGUMENT, "devices: names more than %d", CLATTN_GROUP_MOST);
        }
        if (!*name && (names || *count > 0)) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "devices: a name in the list is empty; write names with + between them");
        }
        status = clattn_context_open(*name ? name : NULL, options, &contexts[*count]);
        *count += status == CLATTN_OK;
    }
    return status;
}

clattn_status clattn_group_open(const char *devices, const clattn_context_options *options, clattn_group **group)
{
    UNCANCELLED;
    REQUIRE(group);
    *group = NULL;
    clattn_context *contexts[CLATTN_GROUP_MOST];
    size_t count = 0;
    const char *given = devices ? devices : environment_device();
    char *names = strdup(given ? given : "");
    clattn_status status = names ? open_all(names, options, contexts, &count)
                                 : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for names");
    if (status == CLATTN_OK) {
        status = clattn_group_create(count, contexts, group);
    }
    if (status == CLATTN_OK) {
        (*group)->owns = 1;
    }
    for (size_t n = 0; n < count && status != CLATTN_OK; ++n) {
        clattn_context_destroy(contexts[n]);
    }
    free(names);
    return status;
}

static void division_free(struct group_division *division)
{
    problem_free(division->problem);
    free(division);
}

void clattn_group_destroy(clattn_group *group)
{
    UNCANCELLED;
    if (!group) {
        return;
    }
    for (size_t n = 0; n < group->divisions; ++n) {
        division_free(group->division[n]);
    }
    for (size_t n = 0; n < group->count && group->owns; ++n) {
        clattn_context_destroy(group->context[n]);
    }
    pthread_mutex_destroy(&group->lock);
    free(group);
}

size_t clattn_group_count(const clattn_group *group)
{
    return group ? group->count : 0;
}

clattn_context *clattn_group_context(const clattn_group *group, size_t index)
{
    return group && index < group->count ? group->context[index] : NULL;
}

/* ---- calls ------------------------------------------------------------------------------------ */

/* Before the first `before` divisions. */
static void put_first(clattn_group *group, struct group_division *division, size_t before)
{
    memmove(group->division + 1, group->division, before * sizeof(*group->division));
    group->division[0] = division;
}

static clattn_status new_division(clattn_group *group, const struct any_problem *problem,
                                  const struct group_call *whole)
{
    struct group_division *division = calloc(1, sizeof(*division));
    if (!division || !(division->problem = problem_copy(problem))) {
        free(division);
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for how a problem is divided");
    }
    const clattn_status status = group_divide(group, whole, division);
    if (status != CLATTN_OK) {
        division_free(division);
        return status;
    }
    if (group->divisions == CLATTN_GROUP_KEPT) {
        division_free(group->division[--group->divisions]);
    }
    put_first(group, division, group->divisions++);
    return CLATTN_OK;
}

/* Puts the problem's division first, made where there is none. */
static clattn_status find_division(clattn_group *group, const struct any_problem *problem,
                                   const struct group_call *whole)
{
    for (size_t n = 0; n < group->divisions; ++n) {
        if (problem_equal(group->division[n]->problem, problem)) {
            put_first(group, group->division[n], n);
            return CLATTN_OK;
        }
    }
    return new_division(group, problem, whole);
}

clattn_status group_run(clattn_group *group, const struct any_problem *problem, const struct group_call *whole)
{
    struct group_division division = { .problem = NULL };
    pthread_mutex_lock(&group->lock);
    const clattn_status status = find_division(group, problem, whole);
    if (status == CLATTN_OK) {
        division = *group->division[0];
    }
    pthread_mutex_unlock(&group->lock);
    if (status != CLATTN_OK) {
        return status;
    }
    return division.is_divided ? group_run_divided(group, &division, whole)
                               : group_call_run(group->context[division.fastest], whole);
}

static clattn_status run_checked(clattn_group *group, const struct group_call *whole, const void *problem,
                                 const struct given *given)
{
    struct any_problem *checked = NULL;
    clattn_status status = entry_check_host(whole->operation, problem, given, &checked);
    if (status == CLATTN_OK) {
        status = group_run(group, checked, whole);
    }
    problem_free(checked);
    return status;
}

clattn_status clattn_group_forward_host(clattn_group *group, const clattn_problem *problem, const clattn_call *call,
                                        const clattn_host_tensors *tensors)
{
    UNCANCELLED;
    REQUIRE(group);
    REQUIRE(problem);
    REQUIRE(tensors);
    struct group_call whole = { 0 };
    const clattn_status status = group_call_read(problem, NULL, call, tensors, NULL, &whole);
    return status == CLATTN_OK ? run_checked(group, &whole, problem, GIVEN(call, tensors)) : status;
}

clattn_status clattn_group_backward_host(clattn_group *group, const clattn_backward_problem *problem,
                                         const clattn_call *call, const clattn_host_tensors *tensors,
                                         const clattn_host_gradients *gradients)
{
    UNCANCELLED;
    REQUIRE(group);
    REQUIRE(problem);
    REQUIRE(problem->forward);
    REQUIRE(tensors);
    REQUIRE(gradients);
    struct group_call whole = { 0 };
    const clattn_status status = group_call_read(problem->forward, problem, call, tensors, gradients, &whole);
    return status == CLATTN_OK ? run_checked(group, &whole, problem, GIVEN(call, tensors, gradients)) : status;
}

/* ---- telling ---------------------------------------------------------------------------------- */

static void tell_measured(const clattn_group *group, const struct group_division *division, struct text *text)
{
    if (division->together_ms > 0) {
        text_append(text, "; measured: together %s ms, alone", DECIMAL_FIXED(3, division->together_ms));
    } else if (division->alone_ms[0] > 0) {
        text_append(text, "; measured: alone");
    }
    for (size_t n = 0; n < group->count && division->alone_ms[0] > 0; ++n) {
        text_append(text, "%s %s ms", n == 0 ? "" : ",", DECIMAL_FIXED(3, division->alone_ms[n]));
    }
}

static void tell_division(const clattn_group *group, const struct group_division *division, struct text *text)
{
    char line[1024];
    problem_describe(division->problem, line, sizeof(line));
    text_append(text, "%s: %s\n", division->problem->operation->name, line);
    if (!division->is_divided) {
        text_append(text, "  by device %zu alone", division->fastest);
    }
    for (size_t n = 0; n < group->count && division->is_divided; ++n) {
        text_append(text, n == 0 ? "  %s divided: %lld" : "%s %lld", n == 0 ? group_axis_names[division->axis] : "",
                    (long long)(division->first[n + 1] - division->first[n]));
    }
    tell_measured(group, division, text);
    text_append(text, "\n");
}

clattn_status clattn_group_explain(const clattn_group *group, char **text)
{
    UNCANCELLED;
    REQUIRE(text);
    *text = NULL;
    REQUIRE(group);
    struct text told = TEXT_INIT;
    pthread_mutex_lock(&((clattn_group *)group)->lock);
    for (size_t n = 0; n < group->count; ++n) {
        text_append(&told, "device %zu: %s (%s)\n", n, group->context[n]->device.name,
                    group->context[n]->device.platform_name);
    }
    for (size_t n = 0; n < group->divisions; ++n) {
        tell_division(group, group->division[n], &told);
    }
    pthread_mutex_unlock(&((clattn_group *)group)->lock);
    return text_give(&told, "the group's description", text);
}
