/* SPDX-License-Identifier: BSD-3-Clause */
/* Any lines as the arguments of uroce-perf: they are accepted, or refused with a reason, and
 * accepted ones are printed as text with the same meaning. */
#include <string.h>

#include "fuzz.h"
#include "options.h"

#define ARGS_MAX 32

static void check_told(const struct perf_options *o)
{
    struct perf_options again;
    char value[64], twice[64], error[128];
    const char *name;

    options_default(&again);
    for (unsigned i = 0; (name = options_get(o, i, value, sizeof(value))); i++)
        REQUIRE(!options_set(&again, name, value, error, sizeof(error)));
    for (unsigned i = 0; options_get(o, i, value, sizeof(value)); i++) {
        options_get(&again, i, twice, sizeof(twice));
        REQUIRE(!strcmp(value, twice));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size), *argv[ARGS_MAX], *rest = text;
    struct perf_options o;
    char error[128] = "";
    int argc = 0, ret;

    while (rest && argc < ARGS_MAX)
        argv[argc++] = strsep(&rest, "\n");
    options_default(&o);
    ret = options_read(&o, argc, argv, error, sizeof(error));
    REQUIRE(ret >= -1 && ret <= 1 && (ret < 0) == (error[0] != 0));
    check_told(&o);
    if (!ret && options_check(&o, error, sizeof(error)))
        REQUIRE(error[0]);
    free(text);
    return 0;
}
