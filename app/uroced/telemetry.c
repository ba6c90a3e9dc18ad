/* SPDX-License-Identifier: BSD-3-Clause */
/* See telemetry.h. */
#include "telemetry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "env_telemetry.h"
#include "state.h"

/* A client of the telemetry socket waits as long. */
#define ANSWER_SECONDS 2

static const char *control_socket;

/* The state, whose size does not depend on the number of objects. NULL: there is no answer, or
 * another daemon serves at the path. */
static json_t *ask(void)
{
    int err, sock = state_connect(control_socket, ANSWER_SECONDS);
    json_t *state;

    if (sock < 0)
        return NULL;
    state = state_ask(sock, CTL_SHOW_METRICS, &err);
    close(sock);
    if (json_integer_value(json_object_get(state, "pid")) == getpid())
        return state;
    json_decref(state);
    return NULL;
}

/* ---- parts of the state ---- */

/* The members of an object that are no lists and no objects, as a new one. NULL stays NULL. */
static json_t *scalars(json_t *object)
{
    json_t *result = object ? json_object() : NULL, *value;
    const char *name;

    json_object_foreach(object, name, value)
    {
        if (json_is_integer(value) || json_is_string(value) || json_is_boolean(value))
            json_object_set(result, name, value);
    }
    return result;
}

/* The index of the named device; "": of the only one. -1: there is none. */
static int find_device(const json_t *state, const char *name)
{
    json_t *devices = json_object_get(state, "devices"), *d;
    size_t i;

    if (!*name)
        return json_array_size(devices) == 1 ? 0 : -1;
    json_array_foreach(devices, i, d)
    {
        if (!strcmp(json_string_value(json_object_get(d, "name")), name))
            return (int)i;
    }
    return -1;
}

static json_t *port_of(const json_t *state, const char *name)
{
    int i = find_device(state, name);
    json_t *device = i < 0 ? NULL : json_array_get(json_object_get(state, "devices"), (size_t)i);

    return json_array_get(json_object_get(device, "ports"), 0);
}

/* ---- commands: each has the state and the parameters, and returns a new value or NULL ---- */

static json_t *info(json_t *state, const char *parameters)
{
    json_t *value = scalars(state);

    json_object_set_new(
        value, "devices",
        json_integer((json_int_t)json_array_size(json_object_get(state, "devices"))));
    json_object_set_new(
        value, "workers",
        json_integer((json_int_t)json_array_size(json_object_get(state, "workers"))));
    json_object_set_new(value, "socket", json_string(control_socket));
    return value;
}

static json_t *ports(json_t *state, const char *parameters)
{
    json_t *list = json_array(), *d;
    size_t i;

    json_array_foreach(json_object_get(state, "devices"), i, d)
        json_array_append(list, json_object_get(d, "name"));
    return list;
}

static json_t *port(json_t *state, const char *parameters)
{
    return scalars(port_of(state, parameters));
}

static json_t *counters(json_t *state, const char *parameters)
{
    return scalars(json_object_get(port_of(state, parameters), "counters"));
}

static json_t *drops(json_t *state, const char *parameters)
{
    return scalars(
        json_object_get(json_object_get(port_of(state, parameters), "counters"), "drops"));
}

/* Sums over a device's queue pairs, also those that are gone. */
static json_t *qps(json_t *state, const char *parameters)
{
    int i = find_device(state, parameters);

    return i < 0 ? NULL : scalars(json_array_get(json_object_get(state, "totals"), (size_t)i));
}

/* How many there are of each kind, of all users. */
static json_t *objects(json_t *state, const char *parameters)
{
    int i = find_device(state, parameters);
    json_t *device = i < 0 ? NULL : json_array_get(json_object_get(state, "devices"), (size_t)i);
    json_t *value = device ? json_object() : NULL, *row;
    size_t n;

    json_array_foreach(json_object_get(state, "quotas"), n, row)
    {
        if (device && json_is_string(json_object_get(row, "uid")) &&
            json_equal(json_object_get(row, "device"), json_object_get(device, "name")))
            json_object_set(value, json_string_value(json_object_get(row, "kind")),
                            json_object_get(row, "used"));
    }
    return value;
}

static json_t *workers(json_t *state, const char *parameters)
{
    json_t *list = json_array(), *w;
    size_t i;

    json_array_foreach(json_object_get(state, "workers"), i, w)
        json_array_append(list, json_object_get(w, "index"));
    return list;
}

static json_t *worker(json_t *state, const char *parameters)
{
    char *end;
    unsigned long number = strtoul(parameters, &end, 10);

    if (*end || *parameters < '0' || *parameters > '9')
        return NULL;
    return scalars(json_array_get(json_object_get(state, "workers"), number));
}

/* Of its answer; the command has no context of its own. */
static json_t *answer(json_t *(*part)(json_t *state, const char *parameters),
                      const char *parameters)
{
    json_t *state = ask();
    json_t *value = state ? part(state, parameters) : NULL;

    json_decref(state);
    return value;
}

#define COMMANDS(X)                                                                               \
    X(info, "The daemon: version, process, control socket. No parameters")                        \
    X(ports, "The names of the devices. No parameters")                                           \
    X(port, "A device's port: driver, state, address, MTU. Parameter: the device's name, unless " \
            "there is one alone")                                                                 \
    X(counters, "A port's counters. Parameter as of /uroce/port")                                 \
    X(drops, "A port's dropped packets by reason. Parameter as of /uroce/port")                   \
    X(qps, "Counters of all queue pairs of a device in sum. Parameter as of /uroce/port")         \
    X(objects, "How many objects of each kind a device has. Parameter as of /uroce/port")         \
    X(workers, "The numbers of the workers. No parameters")                                       \
    X(worker, "A worker's counters. Parameter: its number")

#define X(name, help)                                    \
    static json_t *answer_##name(const char *parameters) \
    {                                                    \
        return answer(name, parameters);                 \
    }
COMMANDS(X)
#undef X

int telemetry_open(const char *socket)
{
    static const struct telemetry_command commands[] = {
#define X(name, help) {"/uroce/" #name, help, answer_##name},
        COMMANDS(X)
#undef X
    };
    int err;

    control_socket = socket;
    err = env_telemetry_register(commands, ARRAY_SIZE(commands));
    if (err)
        fprintf(stderr, "uroced: DPDK's telemetry: %s\n", strerror(-err));
    return err;
}
