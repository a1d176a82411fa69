/* From wisdom or the tuning table to a plan's tile. */
#include "plan/tile_choice.h"

#include "base/decimal.h"

struct wisdom_tile tile_choose(struct ask *ask, struct clattn_plan *plan)
{
    const struct strategy *strategy = plan->strategy;
    struct tunable tunable = { .is_smallest = 0 };
    const int is_tunable = strategy->tunable(ask, &tunable);
    const struct wisdom_fact *fact = is_tunable ? wisdom_find(plan->context->wisdom, &tunable.of) : NULL;
    const char *table = tunable.is_smallest ? "the tuning table, its smallest" : "the tuning table";
    if (!fact) {
        text_append(ask->explain, "  tile from: %s\n", table);
        return tunable.table;
    }
    if (plan->without_wisdom || !strategy->is_legal(ask, &fact->tile)) {
        text_append(ask->explain, "  tile from: %s; wisdom has one that %s here\n", table,
                    plan->without_wisdom ? "could not be built" : "cannot be taken");
        return tunable.table;
    }
    plan->took_wisdom = 1;
    text_append(ask->explain, "  tile from: wisdom, measured %s times as fast as the tuning table's\n",
                DECIMAL_FIXED(2, (double)fact->table_ns / (double)fact->tuned_ns));
    return fact->tile;
}
