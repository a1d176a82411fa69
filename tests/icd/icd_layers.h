/* Loading an OpenCL layer of tests/icd into the own process. */
#ifndef CLATTN_TESTS_ICD_ICD_LAYERS_H
#define CLATTN_TESTS_ICD_ICD_LAYERS_H

/* Before the first OpenCL call: asks the ICD loader for the layer `name` ("fault_layer"), which the build
 * left in tests/icd/.libs of the folder $builddir (else the current one). */
void layer_request(const char *name);

/* After the first OpenCL call: the layer's `symbol`, or the end of the program with a message: a layer
 * that is not there is ignored in silence by the loader. */
void *layer_symbol(const char *name, const char *symbol);

#endif
