/* What ggml asks of a backend. There is one device, which computes FLASH_ATTN_EXT in the host's memory; all else of a
 * graph stays with the CPU backend. */
#include "attention.h"
#include "declined.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An older ggml has none, and is refused in words, not by the loader. */
extern const char *ggml_version(void) __attribute__((weak));

/* All backends of a process share a context, and so what was compiled; the last one ends it. */
static struct {
    pthread_mutex_t lock;
    clattn_context *context;
    int users;
} shared = { PTHREAD_MUTEX_INITIALIZER, NULL, 0 };

static int take_context(clattn_context **context)
{
    pthread_mutex_lock(&shared.lock);
    const int is_there = shared.context || clattn_context_open(NULL, NULL, &shared.context) == CLATTN_OK;
    shared.users += is_there;
    *context = shared.context;
    pthread_mutex_unlock(&shared.lock);
    return is_there;
}

static void give_context(void)
{
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0) {
        clattn_context_destroy(shared.context);
        shared.context = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
}

/* ---- a backend --------------------------------------------------------------------------------- */

static const char *name_of_backend(ggml_backend_t backend)
{
    (void)backend;
    return "clattn";
}

static void free_backend(ggml_backend_t backend)
{
    attention_release(backend->context);
    free(backend->context);
    free(backend);
    give_context();
    log_report();
}

static enum ggml_status compute_graph(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    struct attention *attention = backend->context;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        struct ggml_tensor *node = ggml_graph_node(graph, i);
        if (node->op != GGML_OP_FLASH_ATTN_EXT || ggml_is_empty(node)) {
            continue; /* views, which compute nothing */
        }
        if (!attention_compute(attention, node)) {
            fprintf(stderr, "ggml-clattn: %s: %s\n", node->name, attention->error);
            return GGML_STATUS_FAILED;
        }
        computed_count();
    }
    return GGML_STATUS_SUCCESS;
}

/* ---- the device -------------------------------------------------------------------------------- */

static const char *name_of_device(ggml_backend_dev_t device)
{
    (void)device;
    return "clattn";
}

static const char *describe_device(ggml_backend_dev_t device)
{
    (void)device;
    return "attention by clattn (OpenCL)";
}

static void no_memory(ggml_backend_dev_t device, size_t *free_bytes, size_t *total_bytes)
{
    (void)device;
    *free_bytes = *total_bytes = 0; /* the host's, which is another device's to tell */
}

static enum ggml_backend_dev_type type_of_device(ggml_backend_dev_t device)
{
    (void)device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void properties(ggml_backend_dev_t device, struct ggml_backend_dev_props *props)
{
    memset(props, 0, sizeof(*props));
    props->name = name_of_device(device);
    props->description = describe_device(device);
    props->type = type_of_device(device);
}

static ggml_backend_t fail_backend(const char *error)
{
    fprintf(stderr, "ggml-clattn: %s\n", error);
    return NULL;
}

static ggml_backend_t new_backend(ggml_backend_dev_t device, const char *parameters)
{
    static ggml_guid guid = { 0x63, 0x6c, 0x61, 0x74, 0x74, 0x6e, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 1, 0, 0, 0, 1 };
    clattn_context *context;
    (void)parameters;
    if (!take_context(&context)) {
        return fail_backend(clattn_last_error());
    }
    struct attention *attention = calloc(1, sizeof(*attention));
    ggml_backend_t backend = calloc(1, sizeof(*backend));
    const int is_good = attention && backend && attention_init(attention, context);
    if (!is_good) {
        fail_backend(attention && attention->error ? attention->error : "out of memory");
        free(attention);
        free(backend);
        give_context();
        return NULL;
    }
    backend->guid = &guid;
    backend->device = device;
    backend->context = attention;
    backend->iface.get_name = name_of_backend;
    backend->iface.free = free_backend;
    backend->iface.graph_compute = compute_graph;
    return backend;
}

static ggml_backend_buffer_type_t host_memory(ggml_backend_dev_t device)
{
    (void)device;
    return ggml_backend_cpu_buffer_type();
}

static bool takes_node(ggml_backend_dev_t device, const struct ggml_tensor *node)
{
    (void)device;
    switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
        return true;
    case GGML_OP_FLASH_ATTN_EXT: {
        const enum declined reason = declined_reason(node);
        declined_count(reason);
        return reason == DECLINED_NOT;
    }
    default:
        return false;
    }
}

static bool takes_buffer_type(ggml_backend_dev_t device, ggml_backend_buffer_type_t type)
{
    (void)device;
    return ggml_backend_buft_is_host(type);
}

/* ---- the library ------------------------------------------------------------------------------- */

static struct ggml_backend_device the_device;

static const char *name_of_library(ggml_backend_reg_t library)
{
    (void)library;
    return "clattn";
}

static size_t count_devices(ggml_backend_reg_t library)
{
    (void)library;
    return 1;
}

static ggml_backend_dev_t get_device(ggml_backend_reg_t library, size_t index)
{
    (void)library;
    (void)index;
    return &the_device;
}

static void *find_function(ggml_backend_reg_t library, const char *name)
{
    (void)library;
    size_t (*report)(char *, size_t) = ggml_backend_clattn_report;
    void *address = NULL;
    if (strcmp(name, "ggml_backend_clattn_report") == 0) {
        memcpy(&address, &report, sizeof(address)); /* ISO C has no cast for it */
    }
    return address;
}

/* Structs and numbers of operations change from version to version: only the one that this was compiled for will do. */
static int check_version(void)
{
    const char *running = ggml_version ? ggml_version() : "without a version";
    if (strcmp(running, CLATTN_GGML_VERSION) == 0 &&
        strcmp(ggml_op_name(GGML_OP_FLASH_ATTN_EXT), "FLASH_ATTN_EXT") == 0) {
        return 1;
    }
    fprintf(stderr,
            "ggml-clattn: compiled for ggml " CLATTN_GGML_VERSION
            ", and the program has ggml %s: compile it again with "
            "-DCLATTN_GGML_SOURCE=<the program's ggml>\n",
            running);
    return 0;
}

/* ggml takes NULL for a backend that cannot serve, and goes on without it. */
static int check_device(void)
{
    clattn_context *context;
    if (!take_context(&context)) {
        fprintf(stderr, "ggml-clattn: %s\n", clattn_last_error());
        return 0;
    }
    give_context();
    return 1;
}

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void);

ggml_backend_reg_t ggml_backend_init(void)
{
    static struct ggml_backend_reg library = {
        .api_version = GGML_BACKEND_API_VERSION,
        .iface = { .get_name = name_of_library,
                   .get_device_count = count_devices,
                   .get_device = get_device,
                   .get_proc_address = find_function },
    };
    static struct ggml_backend_device device = {
        .iface = { .get_name = name_of_device,
                   .get_description = describe_device,
                   .get_memory = no_memory,
                   .get_type = type_of_device,
                   .get_props = properties,
                   .init_backend = new_backend,
                   .get_buffer_type = host_memory,
                   .supports_op = takes_node,
                   .supports_buft = takes_buffer_type },
        .reg = &library,
    };
    if (!check_version() || !check_device()) {
        return NULL;
    }
    the_device = device;
    return &library;
}
