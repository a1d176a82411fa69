/* Files of shapes, as `clattn bench --shapes` reads them. */
#include "tools/bench_shapes.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bench_shapes shapes;
    struct options options;
    struct failure failure = { EXIT_GOOD, "" };
    char text[160];
    memset(&options, 0, sizeof(options));
    options.value[OPTION_SHAPES] = fuzz_file(data, size);
    if (bench_shapes_read(&options, &shapes, &failure) != 0) {
        fuzz_must(failure.status == EXIT_MISUSE && failure.text[0], "a refusal is the file's fault, and says why");
    }
    for (size_t i = 0; i < shapes.n; ++i) {
        for (const char *at = shapes.shape[i].name; *at; ++at) {
            fuzz_must((unsigned char)*at >= ' ' && *at != 127, "a name has no control characters");
        }
        bench_shape_text(&shapes.shape[i].problem, text, sizeof(text));
        fuzz_must(strlen(text) < sizeof(text) - 1, "a shape's text fits");
    }
    free(shapes.shape);
    return 0;
}
