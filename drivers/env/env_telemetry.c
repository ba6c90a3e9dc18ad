/* SPDX-License-Identifier: BSD-3-Clause */
/* See env_telemetry.h. */
#include "env_telemetry.h"

#include <errno.h>
#include <rte_telemetry.h>
#include <rte_version.h>
#include <string.h>

/* DPDK builds its answer in a buffer of 16 KiB, and leaves out what finds no room there. The name
 * of the command, and spaces, are in it, too. */
#define ANSWER_MAX (12 * 1024)

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define add_dict_number rte_tel_data_add_dict_uint
#else
#define add_dict_number rte_tel_data_add_dict_u64
#endif

static const struct telemetry_command *registered;
static unsigned registered_count;

/* ---- JSON to DPDK's values; each returns 0, or else the answer would lack something ---- */

static int fits(const char *text)
{
    return strlen(text) < RTE_TEL_MAX_STRING_LEN ? 0 : -E2BIG;
}

static int add_member(struct rte_tel_data *d, const char *name, const json_t *value)
{
    if (fits(name))
        return -E2BIG;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return add_dict_number(d, name, (uint64_t)json_integer_value(value));
    if (json_is_boolean(value))
        return add_dict_number(d, name, json_is_true(value));
    if (json_is_string(value) && !fits(json_string_value(value)))
        return rte_tel_data_add_dict_string(d, name, json_string_value(value));
    return -EINVAL;
}

static int add_object(struct rte_tel_data *d, json_t *object)
{
    const char *name;
    json_t *value;
    int err = json_object_size(object) <= RTE_TEL_MAX_DICT_ENTRIES ? 0 : -E2BIG;

    if (!err)
        err = rte_tel_data_start_dict(d);
    json_object_foreach(object, name, value)
    {
        if (!err)
            err = add_member(d, name, value);
    }
    return err;
}

static int add_item(struct rte_tel_data *d, const json_t *item)
{
    if (json_is_integer(item))
        return rte_tel_data_add_array_int(d, (int)json_integer_value(item));
    if (json_is_string(item) && !fits(json_string_value(item)))
        return rte_tel_data_add_array_string(d, json_string_value(item));
    return -EINVAL;
}

static int add_list(struct rte_tel_data *d, const json_t *list)
{
    json_t *item;
    size_t i;
    int err = json_array_size(list) <= RTE_TEL_MAX_ARRAY_ENTRIES ? 0 : -E2BIG;

    if (!err)
        err = rte_tel_data_start_array(
            d, json_is_string(json_array_get(list, 0)) ? RTE_TEL_STRING_VAL : RTE_TEL_INT_VAL);
    json_array_foreach(list, i, item)
    {
        if (!err)
            err = add_item(d, item);
    }
    return err;
}

static int add_value(struct rte_tel_data *d, json_t *value)
{
    if (json_dumpb(value, NULL, 0, 0) > ANSWER_MAX)
        return -E2BIG;
    return json_is_object(value) ? add_object(d, value) : add_list(d, value);
}

/* ---- commands ---- */

static int answer(const char *name, const char *parameters, struct rte_tel_data *d)
{
    json_t *value = NULL;
    int err;

    for (unsigned i = 0; i < registered_count; i++)
        if (!strcmp(registered[i].name, name))
            value = registered[i].answer(parameters ? parameters : "");
    if (!value)
        return -EINVAL;
    err = add_value(d, value);
    json_decref(value);
    return err ? -EINVAL : 0;
}

int env_telemetry_register(const struct telemetry_command *commands, unsigned count)
{
    registered = commands;
    registered_count = count;
    for (unsigned i = 0; i < count; i++) {
        int err = rte_telemetry_register_cmd(commands[i].name, answer, commands[i].help);

        if (err)
            return err;
    }
    return 0;
}
