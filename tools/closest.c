#include "closest.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MAX 40

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Letters added, left out, changed, or two neighbours swapped; three rows of the table of all beginnings. */
static int edits_between(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int rows[3][LENGTH_MAX + 1];
    int *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        last[j] = (int)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        int *const oldest = before;
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}

void closest_begin(struct closest *closest, const char *word, size_t length)
{
    *closest = (struct closest){ word, length, NULL, 0 };
}

void closest_offer(struct closest *closest, const char *name)
{
    const size_t length = strlen(name);
    if (closest->length == 0 || closest->length > LENGTH_MAX || length > LENGTH_MAX) {
        return;
    }
    const int is_beginning = closest->length > 1 && strncmp(closest->word, name, closest->length) == 0;
    const int edits = is_beginning ? 1 : edits_between(closest->word, closest->length, name, length);
    if (!closest->best || edits < closest->edits) {
        closest->best = name;
        closest->edits = edits;
    }
}

const char *closest_name(const struct closest *closest)
{
    const int allowed = closest->length < 6 ? 1 : (int)closest->length / 3;
    return closest->best && closest->edits <= allowed ? closest->best : NULL;
}

const char *closest_hint(const struct closest *closest, char hint[CLOSEST_HINT])
{
    const char *meant = closest_name(closest);
    snprintf(hint, CLOSEST_HINT, "%s%s%s", meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    return hint;
}
