/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and ports that a command line names. See rdma.h. */
#include <stdlib.h>
#include <string.h>

#include "ctl_msg.h"
#include "rdma.h"

/* In each row of each list. chosen: the names by the daemon's. */
static void rename_rows(json_t *root, const json_t *chosen)
{
    const char *key;
    json_t *list, *row;
    size_t i;

    json_object_foreach(root, key, list)
    {
        json_array_foreach(list, i, row)
        {
            const char *name = json_string_value(json_object_get(row, "device"));
            json_t *other = name ? json_object_get(chosen, name) : NULL;

            if (other)
                json_object_set(row, "device", other);
        }
    }
}

void rdma_choose_names(json_t *root)
{
    const char *names = getenv(DEVICE_NAMES_ENV);
    json_t *chosen = json_object(), *d;
    char name[CTL_NAME_MAX];
    size_t i;

    json_array_foreach(json_object_get(root, "devices"), i, d)
    {
        const char *own = json_string_value(json_object_get(d, "name"));

        if (!own)
            continue;
        ctl_device_name(names, (uint32_t)i, own, name);
        json_object_set_new(chosen, own, json_string(name));
        json_object_set_new(d, "name", json_string(name));
    }
    rename_rows(root, chosen);
    json_decref(chosen);
}

/* Whether the first `length` characters of a word are a device's name. */
static bool find(size_t *device, const json_t *devices, const char *word, size_t length)
{
    json_t *d;
    size_t i;

    json_array_foreach(devices, i, d)
    {
        const char *name = json_string_value(json_object_get(d, "name"));

        if (name && strlen(name) == length && !memcmp(name, word, length)) {
            *device = i;
            return true;
        }
    }
    return false;
}

bool rdma_find_device(size_t *device, const json_t *devices, const char *word)
{
    return find(device, devices, word, strlen(word));
}

/* Of "", "-" or a port's number. */
static bool read_port(int *port, const char *text, const json_t *device)
{
    size_t ports = json_array_size(json_object_get(device, "ports"));
    unsigned long number;
    char *end;

    *port = RDMA_ALL_PORTS;
    if (!*text)
        return true;
    *port = RDMA_NO_PORT;
    if (!strcmp(text, "-"))
        return true;
    number = strtoul(text, &end, 10);
    *port = (int)number;
    return *text >= '0' && *text <= '9' && !*end && number >= 1 && number <= ports;
}

bool rdma_find_place(struct rdma_place *p, const json_t *devices, const char *word)
{
    const char *slash = strrchr(word, '/');
    size_t length = slash ? (size_t)(slash - word) : strlen(word);

    if (!find(&p->device, devices, word, length)) {
        rdma_failed("there is no device \"%.*s\"", (int)length, word);
        return false;
    }
    if (read_port(&p->port, slash ? slash + 1 : "", json_array_get(devices, p->device)))
        return true;
    rdma_failed("%.*s has no port \"%s\"", (int)length, word, slash + 1);
    return false;
}
