/* SPDX-License-Identifier: BSD-3-Clause */
/* The final report. */
#include "chaos_world.h"

#include "unit.h"

static uint64_t dropped(enum drop reason)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < world.dp.rnic->device[0]->parts; i++)
        n += counter_get(&engine_counters(world.dp.rnic->device[0]->port[i]->engine)->drop[reason]);
    return n;
}

/* Frames are lost only because a ring was full, or on the way to a destroyed object. */
void check_drops(void)
{
#define DROP(name, help)                                                       \
    if (DROP_##name != DROP_forward_full && DROP_##name != DROP_unknown_qpn && \
        DROP_##name != DROP_qp_state && DROP_##name != DROP_raw_no_recv &&     \
        DROP_##name != DROP_not_roce)                                          \
        assert_int_equal(dropped(DROP_##name), 0);
#include "drop.def"
#undef DROP
}

static uint64_t forwarded_over(void)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < WORKERS; i++)
        n += counter_get(&worker_stats(rnic_worker(world.dp.rnic, i))->forwarded_out);
    return n;
}

static void report_raw(void)
{
    static const char *const name[RAW_PHASES] = {"still", "table changes", "rough"};

    for (unsigned i = 0; i < RAW_PHASES; i++)
        print_message("# raw, %s: %lu phases, %lu frames, %lu lost\n", name[i], raw_tally.phases[i],
                      raw_tally.sent[i], raw_tally.lost[i]);
    print_message("# raw: %lu kills, %lu came late, %lu tables, %lu rules, %lu thefts, WQs: %lu "
                  "flushed, %lu reset, %lu made anew; watcher: %lu frames, %lu changes, %lu ends\n",
                  raw_tally.kills, raw_tally.late, raw_tally.tables, raw_tally.rules,
                  raw_tally.thefts, raw_tally.flushed, raw_tally.resets, raw_tally.remade,
                  raw_tally.watched, raw_tally.watch_changes, raw_tally.watch_ends);
}

void report(void)
{
    static const char *const name[FLOW_KINDS] = {"RC", "RC with SRQ", "UC", "UD", "multicast"};

    print_message("# %lu migrations, %lu refused, %lu of misplaced ones, %lu kills, %lu messages, "
                  "%lu windows, "
                  "%lu flows between programs, %lu frames forwarded, %lu not\n",
                  world.moves, world.refused, world.dp.rnic->device[0]->moved_after_misplaced,
                  world.kills, tally.messages, tally.windows, tally.crossed, forwarded_over(),
                  dropped(DROP_forward_full));
    for (unsigned i = 0; i < FLOW_KINDS; i++)
        print_message("# %s: %lu flows, %lu cut, %lu messages overtaken, %lu lost\n", name[i],
                      tally.finished[i], tally.cut[i], tally.overtaken[i], tally.lost[i]);
    report_raw();
}

/* Only a queue pair that migrated may have missed frames, and an RC one has received them again. */
void check_lost(void)
{
    uint64_t moves = world.moves + world.dp.rnic->device[0]->moved_after_misplaced;

    assert_true(tally.lost[FLOW_UC] <= WINDOW * moves);
    assert_int_equal(tally.lost[FLOW_UD], 0);
    assert_int_equal(tally.lost[FLOW_GROUP], 0);
}
