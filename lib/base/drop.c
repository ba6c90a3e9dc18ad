/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and help texts of the drop reasons: see drop.h. */
#include "drop.h"

static const struct {
    const char *name, *help;
} drops[DROP_COUNT] = {
    [DROP_NONE] = {"none", "not dropped"},
#define DROP(name, help) [DROP_##name] = {#name, help},
#include "drop.def"
#undef DROP
};

const char *drop_name(enum drop reason)
{
    return drops[reason].name;
}

const char *drop_help(enum drop reason)
{
    return drops[reason].help;
}
