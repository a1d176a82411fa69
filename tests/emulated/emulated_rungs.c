/* The probes of GPUs' matrix units with their instructions emulated, on whatever device the environment gives: a
 * line each, "NAME: yes" or "NAME: no: " and why. What is tried is the probe itself, with the registers of each
 * vendor's manual: one that is wrong would keep the unit from ever being used. Run by probes.sh. */
#include <stdio.h>
#include <string.h>

#include "plan/ladder.h"
#include "program/context.h"

#define OPTIONS_BYTES 128

/* The options with EMULATED=1, and for one build; 0 when the rung cannot be emulated. */
static int emulated_options(const struct rung *rung, char options[OPTIONS_BYTES])
{
    static const char real[] = "-D EMULATED=0";
    if (strncmp(rung->options, real, strlen(real)) != 0) {
        return 0;
    }
    const char *others = rung->options + strlen(real), *second = strstr(others, " -D SECOND_BUILD=");
    const int length = second ? (int)(second - others) : (int)strlen(others);
    return snprintf(options, OPTIONS_BYTES, "-D EMULATED=1%.*s", length, others) < OPTIONS_BYTES;
}

int main(void)
{
    clattn_context *context;
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        printf("no context: %s\n", clattn_last_error());
        return 1;
    }
    for (int id = 0; id < RUNG_COUNT; ++id) {
        struct rung rung = ladder_table[id];
        struct text why = TEXT_INIT;
        char options[OPTIONS_BYTES];
        if (!emulated_options(&rung, options)) {
            continue;
        }
        rung.options = options;
        rung.host_check = NULL;
        if (ladder_try(context, &rung, &why)) {
            printf("%s: yes\n", rung.name);
        } else {
            printf("%s: no: %s\n", rung.name, why.data ? why.data : "out of memory");
        }
        text_free(&why);
    }
    clattn_context_destroy(context);
    return 0;
}
