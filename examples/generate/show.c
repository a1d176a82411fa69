#include "show.h"

#include <stdio.h>
#include <stdlib.h>

enum { LISTED = 8 };

void print_token(const struct tokeniser *tokeniser, int32_t token)
{
    size_t length;
    char *text = token_text(tokeniser, token, &length);
    for (size_t i = 0; i < length; ++i) {
        const unsigned char byte = (unsigned char)text[i];
        putchar((byte < ' ' && byte != '\n' && byte != '\t') || byte == 127 ? '?' : byte);
    }
    free(text);
}

/* Nine shades of the 256 colours, from the terminal's own ground to dark red. */
static void ground(double share)
{
    static const int shades[] = { 0, 230, 229, 222, 221, 215, 209, 203, 196 };
    const int last = (int)(sizeof(shades) / sizeof(shades[0])) - 1;
    int shade = (int)(share * last + 0.5);
    shade = shade > last ? last : shade;
    if (shade > 0) {
        printf("\033[48;5;%d;38;5;16m", shades[shade]);
    }
}

/* A line's end takes no colour along. */
static void print_coloured(const struct tokeniser *tokeniser, int32_t token, double share)
{
    size_t length;
    char *text = token_text(tokeniser, token, &length);
    ground(share);
    for (size_t i = 0; i < length; ++i) {
        const unsigned char byte = (unsigned char)text[i];
        if (byte == '\n') {
            fputs("\\n\033[0m\n", stdout);
            if (i + 1 < length) {
                ground(share);
            }
        } else {
            putchar(byte < ' ' || byte == 127 ? '?' : byte);
        }
    }
    fputs("\033[0m", stdout);
    free(text);
}

/* Without a line's end. */
static void print_in_line(const struct tokeniser *tokeniser, int32_t token)
{
    size_t length;
    char *text = token_text(tokeniser, token, &length);
    for (size_t i = 0; i < length; ++i) {
        const unsigned char byte = (unsigned char)text[i];
        if (byte == '\n') {
            fputs("\\n", stdout);
        } else {
            putchar(byte < ' ' || byte == 127 ? '?' : byte);
        }
    }
    free(text);
}

static void list_largest(const struct tokeniser *tokeniser, const int32_t *tokens, int64_t count, const double *weights)
{
    double above = 2;
    int64_t above_at = -1;
    for (int listed = 0; listed < LISTED; ++listed) {
        int64_t best = -1;
        for (int64_t i = 0; i < count; ++i) { /* the largest behind the last one, of equals the first */
            const int behind = weights[i] < above || (!(weights[i] > above) && i > above_at);
            if (behind && (best < 0 || weights[i] > weights[best])) {
                best = i;
            }
        }
        if (best < 0) {
            return;
        }
        printf("%6.2f %%  token %lld  \"", 100 * weights[best], (long long)best);
        print_in_line(tokeniser, tokens[best]);
        puts("\"");
        above = weights[best];
        above_at = best;
    }
}

/* Models park most of their attention on the first token, whatever it is: the colours are by the largest of the
 * others. */
void show_weights(const struct tokeniser *tokeniser, const int32_t *tokens, int64_t count, const double *weights)
{
    double largest = 0;
    for (int64_t i = 1; i < count; ++i) {
        largest = weights[i] > largest ? weights[i] : largest;
    }
    for (int64_t i = 0; i < count; ++i) {
        print_coloured(tokeniser, tokens[i], largest > 0 ? weights[i] / largest : 0);
    }
    puts("\n");
    list_largest(tokeniser, tokens, count, weights);
}
