/* What ONNX Runtime asks of a plug-in execution provider: the library's two functions, a factory with one device in the
 * host's memory, and a provider for each session, which claims the nodes of attention and compiles each to a kernel. */
#include "claim.h"

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

/* A fused node has each value once, and none that is left out: it is found by its name. */
static int place_of(const char *name, const struct value *values, size_t count, size_t max)
{
    for (size_t n = 0; n < count && n < max && name; ++n) {
        if (values[n].name && strcmp(values[n].name, name) == 0) {
            return (int)n;
        }
    }
    return -1;
}

static void find_places(const struct node *fused, struct kernel *kernel)
{
    for (int n = 0; n < INPUTS_MAX; ++n) {
        kernel->input[n].place = place_of(kernel->input[n].name, fused->input, fused->inputs, INPUTS_MAX);
        kernel->input[n].name = NULL;
    }
    for (int n = 0; n < OUTPUTS_MAX; ++n) {
        kernel->output[n].place = place_of(kernel->output[n].name, fused->output, fused->outputs, OUTPUTS_MAX);
        kernel->output[n].name = NULL;
    }
}

/* The claim in the graph of the claimed nodes. */
static OrtStatus *claim_again(const OrtGraph *graph, struct claim *claim)
{
    const OrtNode *nodes[CLAIM_NODES_MAX];
    size_t count;
    TRY(ort->Graph_GetNumNodes(graph, &count));
    if (count > CLAIM_NODES_MAX) {
        return refuse(ORT_EP_FAIL, "clattn: %zu nodes were claimed as one", count);
    }
    TRY(ort->Graph_GetNodes(graph, nodes, count));
    for (size_t n = 0; n < count; ++n) {
        TRY(claim_make(nodes[n], 1, claim));
        if (claim->kind && claim->reason == DECLINED_NOT && claim->count == count) {
            return NULL;
        }
    }
    return refuse(ORT_EP_FAIL, "clattn: what was claimed is not there");
}

static OrtStatus *fill_kernel(const OrtGraph *graph, const OrtNode *fused_node, struct kernel *kernel)
{
    struct node fused;
    struct claim claim;
    TRY(claim_again(graph, &claim));
    TRY(node_read(fused_node, &fused));
    kernel->kind = claim.kind;
    kernel->attributes = claim.attributes;
    memcpy(kernel->input, claim.input, sizeof(kernel->input));
    memcpy(kernel->output, claim.output, sizeof(kernel->output));
    find_places(&fused, kernel);
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

static OrtStatus *claim_from(const OrtNode *node, OrtEpGraphSupportInfo *claims)
{
    struct claim claim;
    OrtNodeFusionOptions options;
    TRY(claim_make(node, 0, &claim));
    if (!claim.kind) {
        return NULL;
    }
    if (claim.reason != DECLINED_NOT) {
        declined_count(claim.reason, claim.kind->operation);
        return NULL;
    }
    memset(&options, 0, sizeof(options));
    options.ort_version_supported = ORT_TABLES;
    TRY(ort_ep->EpGraphSupportInfo_AddNodesToFuse(claims, claim.nodes, claim.count, &options));
    claimed_count();
    return NULL;
}

static OrtStatus *claim_all(const OrtNode *const *nodes, size_t count, OrtEpGraphSupportInfo *claims)
{
    for (size_t n = 0; n < count; ++n) {
        TRY(claim_from(nodes[n], claims));
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
