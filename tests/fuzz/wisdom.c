/* Files of wisdom: nothing is learned that is out of bounds, and what was learned is written so that it comes back. */
#include "plan/wisdom.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static void look_at(const struct wisdom *wisdom, const struct wisdom_fact *fact)
{
    struct wisdom_fact again;
    struct text line = TEXT_INIT;
    const char *word;
    int64_t value;
    fuzz_must(memchr(fact->of.name, 0, WISDOM_NAME_BYTES) != NULL, "a name has an end");
    fuzz_must(fact->table_ns >= 1 && fact->tuned_ns >= 1, "times are positive");
    for (int i = 0; wisdom_number(fact, i, &word, &value); ++i) {
        fuzz_must(value >= 0, "no number is negative");
    }
    fuzz_must(wisdom_find(wisdom, &fact->of) == fact, "there is one fact of a class");
    wisdom_write_line(fact, &line);
    fuzz_must(line.data && wisdom_read_line(line.data, line.length - 1, &again), "what is written is read");
    fuzz_must(wisdom_tile_equal(&fact->tile, &again.tile) && strcmp(fact->of.name, again.of.name) == 0 &&
                  fact->tuned_ns == again.tuned_ns,
              "and is the same then");
    text_free(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wisdom wisdom;
    memset(&wisdom, 0, sizeof(wisdom));
    wisdom_read(&wisdom, (const char *)data, size);
    fuzz_must(wisdom.count <= WISDOM_FACTS_MAX, "a table is not overfull");
    for (size_t i = 0; i < wisdom.count; ++i) {
        look_at(&wisdom, &wisdom.facts[i]);
    }
    return 0;
}
