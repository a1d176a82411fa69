/* Attention of two tokens over three, one head of two numbers each: the smallest use of clattn.
 *     cc attention.c $(pkg-config --cflags --libs clattn) && ./a.out */
#include <clattn.h>
#include <stdio.h>

int main(void)
{
    const float query[2][2] = { { 1, 0 }, { 0, 1 } };
    const float key[3][2] = { { 3, 0 }, { 0, 3 }, { 0, 0 } }, value[3][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
    float out[2][2];
    clattn_context *context;
    clattn_status status = clattn_context_open(NULL, NULL, &context); /* CLATTN_DEVICE, else the best */
    if (status == CLATTN_OK) {
        status =
            clattn_attention(context, CLATTN_FLOAT32, 1, 1, 1, 2, 3, 2, CLATTN_ALIGN_UNSET, query, key, value, out);
        clattn_context_destroy(context);
    }
    if (status != CLATTN_OK) {
        return fprintf(stderr, "%s\n", clattn_last_error()), 1;
    }
    printf("%.4f %.4f\n%.4f %.4f\n", out[0][0], out[0][1], out[1][0], out[1][1]);
    return 0;
}
