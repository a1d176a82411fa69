/* The first row of the program in README.md, whose result stands there. */
#include <clattn.h>
#include <clattn_backward.h>
#include <clattn_cache.h>
#include <clattn_costs.h>
#include <clattn_layers.h>

#include <cstdio>

int main()
{
    const float query[2] = { 1, 0 }, key[6] = { 3, 0, 0, 3, 0, 0 }, value[6] = { 1, 2, 3, 4, 5, 6 };
    float out[2];
    clattn_context *context;
    clattn_status status = clattn_context_open(nullptr, nullptr, &context);
    if (status == CLATTN_OK) {
        status =
            clattn_attention(context, CLATTN_FLOAT32, 1, 1, 1, 1, 3, 2, CLATTN_ALIGN_UNSET, query, key, value, out);
        clattn_context_destroy(context);
    }
    if (status != CLATTN_OK) {
        return std::fprintf(stderr, "%s\n", clattn_last_error()), 1;
    }
    std::printf("%.4f %.4f\n", out[0], out[1]);
    return 0;
}
