/* What ONNX Runtime asks of a plug-in execution provider: the library's two functions, a factory with one device in the
 * host's memory, and a provider for each session, which claims the nodes of attention and compiles each to a kernel. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever name the library is registered by. */
#define NAME "ClattnExecutionProvider"

struct provider {
    OrtEp base; /* first */
    struct plans plans;
};

/* ---- kernels ----------------------------------------------------------------------------------- */

static OrtStatus *ORT_API_CALL create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context, void **state)
{
    (void)context;
    *state = info; /* whatever a call needs it takes for itself */
    return NULL;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo *info, void *state)
{
    (void)info;
    (void)state;
}

static OrtStatus *ORT_API_CALL compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context)
{
    struct run run = { (const struct kernel *)info, context, NULL };
    (void)state;
    TRY(lane_take(&run.lane));
    OrtStatus *status = run.kernel->kind->compute(&run);
    lane_give(run.lane);
    if (!status) {
        computed_count();
    }
    return status;
}

/* Where the fused node has a value of this name; -1: nowhere. */
static int place_of(const struct value *value, const struct value *places, size_t count)
{
    for (size_t n = 0; n < count && value->name && *value->name; ++n) {
        if (places[n].name && strcmp(places[n].name, value->name) == 0) {
            return (int)n;
        }
    }
    return -1;
}

/* A fused node has each value once, and none that is left out: it is found by its name. */
static void find_places(const struct node *node, const struct node *fused, struct kernel *kernel)
{
    for (int n = 0; n < INPUTS_MAX; ++n) {
        kernel->input[n] =
            place_of(&node->input[n], fused->input, fused->inputs < INPUTS_MAX ? fused->inputs : INPUTS_MAX);
    }
    for (int n = 0; n < OUTPUTS_MAX; ++n) {
        kernel->output[n] =
            place_of(&node->output[n], fused->output, fused->outputs < OUTPUTS_MAX ? fused->outputs : OUTPUTS_MAX);
    }
}

static OrtStatus *fill_kernel(const OrtGraph *graph, const OrtNode *fused_node, struct kernel *kernel)
{
    const OrtNode *claimed;
    struct node node, fused;
    enum declined reason = DECLINED_NOT;
    TRY(ort->Graph_GetNodes(graph, &claimed, 1));
    TRY(node_read(claimed, &node));
    TRY(node_read(fused_node, &fused));
    kernel->kind = kind_of(&node);
    if (kernel->kind) {
        TRY(kernel->kind->read(&node, &kernel->attributes, &reason));
    }
    if (!kernel->kind || reason != DECLINED_NOT) {
        return refuse(ORT_EP_FAIL, "clattn: %s was not claimed", node.operation);
    }
    find_places(&node, &fused, kernel);
    kernel->base.ort_version_supported = ORT_TABLES;
    kernel->base.CreateState = create_state;
    kernel->base.Compute = compute;
    kernel->base.ReleaseState = release_state;
    return NULL;
}

static void ORT_API_CALL release_kernels(OrtEp *provider, OrtNodeComputeInfo **kernels, size_t count)
{
    (void)provider;
    for (size_t n = 0; n < count; ++n) {
        free(kernels[n]); /* a kernel begins with it */
    }
}

static OrtStatus *ORT_API_CALL compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                                       OrtNodeComputeInfo **kernels, OrtNode **context_nodes)
{
    struct provider *provider = (struct provider *)ep;
    (void)context_nodes;
    for (size_t n = 0; n < count; ++n) {
        struct kernel *kernel = calloc(1, sizeof(*kernel));
        OrtStatus *status = kernel ? fill_kernel(graphs[n], fused[n], kernel) : refuse_memory();
        if (status) {
            free(kernel);
            release_kernels(ep, kernels, n);
            return status;
        }
        kernel->plans = &provider->plans;
        kernels[n] = &kernel->base;
    }
    return NULL;
}

/* ---- a provider -------------------------------------------------------------------------------- */

#define CONSUMERS_MAX 16

/* Whether a node of attention reads output 0. */
static OrtStatus *find_attention(const struct node *node, int *is_found)
{
    const OrtNode *consumers[CONSUMERS_MAX];
    int64_t inputs[CONSUMERS_MAX];
    size_t count;
    struct node consumer;
    *is_found = 0;
    TRY(ort->ValueInfo_GetValueNumConsumers(node->output[0].info, &count));
    if (count > CONSUMERS_MAX) {
        return NULL;
    }
    TRY(ort->ValueInfo_GetValueConsumers(node->output[0].info, consumers, inputs, count));
    for (size_t n = 0; n < count; ++n) {
        TRY(node_read(consumers[n], &consumer));
        const struct kind *kind = kind_of(&consumer);
        *is_found |= kind && !kind->is_companion;
    }
    return NULL;
}

static OrtStatus *claim(const OrtNode *ort_node, OrtEpGraphSupportInfo *claims)
{
    struct node node;
    struct attributes attributes;
    enum declined reason;
    OrtNodeFusionOptions options;
    TRY(node_read(ort_node, &node));
    const struct kind *kind = kind_of(&node);
    int is_wanted = kind != NULL;
    if (kind && kind->is_companion) {
        TRY(find_attention(&node, &is_wanted));
    }
    if (!is_wanted) {
        return NULL;
    }
    TRY(kind->read(&node, &attributes, &reason));
    if (reason != DECLINED_NOT) {
        declined_count(reason, node.operation);
        return NULL;
    }
    memset(&options, 0, sizeof(options));
    options.ort_version_supported = ORT_TABLES;
    TRY(ort_ep->EpGraphSupportInfo_AddNodesToFuse(claims, &ort_node, 1, &options));
    claimed_count();
    return NULL;
}

static OrtStatus *claim_all(const OrtNode *const *nodes, size_t count, OrtEpGraphSupportInfo *claims)
{
    for (size_t n = 0; n < count; ++n) {
        TRY(claim(nodes[n], claims));
    }
    return NULL;
}

static OrtStatus *ORT_API_CALL get_capability(OrtEp *provider, const OrtGraph *graph, OrtEpGraphSupportInfo *claims)
{
    size_t count;
    (void)provider;
    TRY(ort->Graph_GetNumNodes(graph, &count));
    const OrtNode **nodes = calloc(count + 1, sizeof(const OrtNode *));
    if (!nodes) {
        return refuse_memory();
    }
    OrtStatus *status = count > 0 ? ort->Graph_GetNodes(graph, nodes, count) : NULL;
    if (!status) {
        status = claim_all(nodes, count, claims);
    }
    free(nodes);
    return status;
}

static const char *ORT_API_CALL name_of_provider(const OrtEp *provider)
{
    (void)provider;
    return NAME;
}

static void ORT_API_CALL release_provider(OrtEpFactory *factory, OrtEp *ep)
{
    struct provider *provider = (struct provider *)ep;
    (void)factory;
    plans_release(&provider->plans);
    free(provider);
    device_close();
    log_report();
}

static OrtStatus *ORT_API_CALL create_provider(OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
                                               const OrtKeyValuePairs *const *metadata, size_t count,
                                               const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **ep)
{
    clattn_context *context;
    (void)factory;
    (void)devices;
    (void)metadata;
    (void)count;
    (void)options;
    (void)logger;
    TRY(device_open(&context));
    struct provider *provider = calloc(1, sizeof(*provider));
    if (!provider) {
        device_close();
        return refuse_memory();
    }
    plans_init(&provider->plans, context);
    provider->base.ort_version_supported = ORT_TABLES;
    provider->base.GetName = name_of_provider;
    provider->base.GetCapability = get_capability;
    provider->base.Compile = compile;
    provider->base.ReleaseNodeComputeInfos = release_kernels;
    *ep = &provider->base;
    return NULL;
}

/* ---- the factory ------------------------------------------------------------------------------- */

static const char *ORT_API_CALL name_of_factory(const OrtEpFactory *factory)
{
    (void)factory;
    return NAME;
}

static const char *ORT_API_CALL name_of_vendor(const OrtEpFactory *factory)
{
    (void)factory;
    return "clattn";
}

static uint32_t ORT_API_CALL number_of_vendor(const OrtEpFactory *factory)
{
    (void)factory;
    return 0; /* a PCI number, which there is none of */
}

static const char *ORT_API_CALL version_of_factory(const OrtEpFactory *factory)
{
    (void)factory;
    return clattn_version();
}

/* Tensors stay in the host's memory, whatever device clattn computes on: that is the CPU's, for ONNX Runtime. */
static OrtStatus *ORT_API_CALL get_devices(OrtEpFactory *factory, const OrtHardwareDevice *const *devices, size_t count,
                                           OrtEpDevice **taken, size_t max, size_t *taken_count)
{
    *taken_count = 0;
    for (size_t n = 0; n < count && *taken_count < max; ++n) {
        if (ort->HardwareDevice_Type(devices[n]) == OrtHardwareDeviceType_CPU) {
            TRY(ort_ep->CreateEpDevice(factory, devices[n], NULL, NULL, &taken[*taken_count]));
            ++*taken_count;
        }
    }
    return NULL;
}

static OrtStatus *ORT_API_CALL no_allocator(OrtEpFactory *factory, const OrtMemoryInfo *memory,
                                            const OrtKeyValuePairs *options, OrtAllocator **allocator)
{
    (void)factory;
    (void)memory;
    (void)options;
    *allocator = NULL;
    return NULL;
}

static void ORT_API_CALL release_no_allocator(OrtEpFactory *factory, OrtAllocator *allocator)
{
    (void)factory;
    (void)allocator;
}

static OrtStatus *ORT_API_CALL no_transfer(OrtEpFactory *factory, OrtDataTransferImpl **transfer)
{
    (void)factory;
    *transfer = NULL;
    return NULL;
}

static bool ORT_API_CALL has_no_streams(const OrtEpFactory *factory)
{
    (void)factory;
    return false;
}

/* ---- the library ------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                                                    const OrtLogger *logger, OrtEpFactory **factories,
                                                                    size_t max, size_t *count);
__attribute__((visibility("default"))) OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

static OrtStatus *find_tables(const OrtApiBase *base)
{
    ort = base->GetApi(ORT_TABLES);
    if (!ort) {
        char text[160];
        snprintf(text, sizeof(text), "clattn: ONNX Runtime %s is too old: 1.%d is needed", base->GetVersionString(),
                 ORT_TABLES);
        return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED, text);
    }
    ort_ep = ort->GetEpApi();
    return NULL;
}

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **factories, size_t max, size_t *count)
{
    (void)name;
    (void)logger;
    TRY(find_tables(base));
    if (max < 1) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: no room for its factory");
    }
    OrtEpFactory *factory = calloc(1, sizeof(*factory));
    if (!factory) {
        return refuse_memory();
    }
    factory->ort_version_supported = ORT_TABLES;
    factory->GetName = name_of_factory;
    factory->GetVendor = name_of_vendor;
    factory->GetVendorId = number_of_vendor;
    factory->GetVersion = version_of_factory;
    factory->GetSupportedDevices = get_devices;
    factory->CreateEp = create_provider;
    factory->ReleaseEp = release_provider;
    factory->CreateAllocator = no_allocator;
    factory->ReleaseAllocator = release_no_allocator;
    factory->CreateDataTransfer = no_transfer;
    factory->IsStreamAware = has_no_streams;
    factories[0] = factory;
    *count = 1;
    return NULL;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *factory)
{
    free(factory);
    return NULL;
}
