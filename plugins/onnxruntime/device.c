/* One context for the process, so that what was compiled is compiled once; lanes in a free list. */
#include "device.h"

#include <pthread.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    clattn_context *context;
    int users;
    struct lane *free_lanes;
} shared = { PTHREAD_MUTEX_INITIALIZER, NULL, 0, NULL };

OrtStatus *device_open(clattn_context **context)
{
    pthread_mutex_lock(&shared.lock);
    const clattn_status status = shared.context ? CLATTN_OK : clattn_context_open(NULL, NULL, &shared.context);
    shared.users += status == CLATTN_OK;
    *context = shared.context;
    pthread_mutex_unlock(&shared.lock);
    return status == CLATTN_OK ? NULL : refuse_as_clattn(status);
}

int device_has_float64(void)
{
    cl_device_fp_config config = 0;
    const cl_device_id device = clattn_context_device(shared.context);
    return clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(config), &config, NULL) == CL_SUCCESS && config;
}

static void free_lane(struct lane *lane)
{
    for (int use = 0; use < SCRATCH_COUNT; ++use) {
        free(lane->scratch[use].data);
    }
    clReleaseCommandQueue(lane->queue);
    free(lane);
}

void device_close(void)
{
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0) {
        while (shared.free_lanes) {
            struct lane *lane = shared.free_lanes;
            shared.free_lanes = lane->next;
            free_lane(lane);
        }
        clattn_context_destroy(shared.context);
        shared.context = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
}

static OrtStatus *make_lane(struct lane **made)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    cl_int code;
    if (!lane) {
        return refuse_memory();
    }
    lane->queue =
        clCreateCommandQueue(clattn_context_cl(shared.context), clattn_context_device(shared.context), 0, &code);
    if (code != CL_SUCCESS) {
        free(lane);
        return refuse(ORT_EP_FAIL, "clattn: clCreateCommandQueue failed with %d", code);
    }
    *made = lane;
    return NULL;
}

OrtStatus *lane_take(struct lane **lane)
{
    pthread_mutex_lock(&shared.lock);
    *lane = shared.free_lanes;
    if (*lane) {
        shared.free_lanes = (*lane)->next;
    }
    pthread_mutex_unlock(&shared.lock);
    return *lane ? NULL : make_lane(lane);
}

void lane_give(struct lane *lane)
{
    pthread_mutex_lock(&shared.lock);
    lane->next = shared.free_lanes;
    shared.free_lanes = lane;
    pthread_mutex_unlock(&shared.lock);
}

void *lane_room(struct lane *lane, enum scratch_use use, size_t bytes)
{
    if (bytes > lane->scratch[use].bytes || !lane->scratch[use].data) {
        free(lane->scratch[use].data);
        lane->scratch[use].data = malloc(bytes ? bytes : 1);
        lane->scratch[use].bytes = lane->scratch[use].data ? bytes : 0;
    }
    return lane->scratch[use].data;
}
