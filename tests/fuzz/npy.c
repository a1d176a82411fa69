/* .npy files: whatever is taken has as many elements as its shape says, and is written and read again as it is. */
#include "tools/npy.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensor tensor;
    struct failure failure = { EXIT_GOOD, "" };
    char text[TENSOR_SHAPE_TEXT];
    double sum = 0;
    if (npy_read(fuzz_file(data, size), &tensor, &failure) != 0) {
        fuzz_must(failure.status == EXIT_MISUSE && failure.text[0], "a refusal is the file's fault, and says why");
        return 0;
    }
    fuzz_must(tensor_bytes(&tensor) <= size, "the data was in the file");
    for (int64_t i = 0; i < tensor_count(&tensor); ++i) {
        sum += tensor_load(&tensor, i);
    }
    fuzz_must(sum == sum || tensor_bytes(&tensor) > 0, "no data, no sum"); /* reads all of it */
    fuzz_must(strlen(tensor_shape_text(&tensor, text)) < sizeof(text), "the shape's text fits");
    if (tensor.type == TENSOR_INT64) {
        fuzz_must(tensor_convert(&tensor, TENSOR_FLOAT16, "a tensor", &failure) == 0, "integers become float16");
    }
    tensor_free(&tensor);
    return 0;
}
