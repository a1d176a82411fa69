/* Loading an OpenCL layer. */
#include "icd_layers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "clattn.h"

static void layer_path(const char *name, char *path, size_t size)
{
    const char *folder = getenv("builddir");
    snprintf(path, size, "%s/tests/icd/.libs/%s.so", folder ? folder : ".", name);
}

void layer_request(const char *name)
{
    char path[4096], layers[8192];
    layer_path(name, path, sizeof(path));
    const char *loaded = getenv("OPENCL_LAYERS");
    snprintf(layers, sizeof(layers), "%s%s%s", loaded ? loaded : "", loaded && *loaded ? ":" : "", path);
    setenv("OPENCL_LAYERS", layers, 1);
}

void *layer_symbol(const char *name, const char *symbol)
{
    char path[4096];
    cl_uint platforms = 0;
    clGetPlatformIDs(0, NULL, &platforms); /* makes the loader load it */
    layer_path(name, path, sizeof(path));
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (!found) {
        printf("the layer %s was not loaded by this OpenCL loader, or is not built\n", path);
        exit(1);
    }
    dlclose(library); /* the loader keeps it */
    return found;
}
