/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce rdma dev`, `link` and `statistic`. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "endpoint.h"
#include "face.h"
#include "rdma.h"

/* What the verbs library reports (lib/verbs/query.c), in the words of rdma. */
static const char *const device_caps[] = {
    "CURR_QP_STATE_MOD", "PORT_ACTIVE_EVENT", "SYS_IMAGE_GUID", "RC_RNR_NAK_GEN",
    "SRQ_RESIZE",        "N_NOTIFY_CQ",       "MEM_WINDOW",     "XRC",
    "MEM_MGT_EXTENSIONS"};

/* The devices and their counters. 0; or the exit status, with the reason on stderr. */
static int ask(const struct rdma_call *c, struct face *f)
{
    char path[ENDPOINT_PATH_MAX] = "";
    int sock = endpoint_connect(c->socket, path), err;

    if (sock < 0) {
        endpoint_print_error(path, sock);
        return 1;
    }
    err = face_open(f, sock);
    close(sock);
    if (err)
        return rdma_failed("%s", strerror(-err));
    for (unsigned i = 0; i < f->devices; i++) {
        struct ctl_device *d = &f->device[i].info;
        const struct ctl_device info = *d;

        ctl_device_name(getenv(DEVICE_NAMES_ENV), info.index, info.name, d->name);
    }
    rdma_choose_names(f->root);
    return 0;
}

static const json_t *devices_of(const struct face *f)
{
    return json_object_get(f->root, "devices");
}

/* ---- dev ---- */

static json_t *guid_text(uint64_t guid)
{
    uint8_t b[8];

    memcpy(b, &guid, sizeof(b));
    return json_sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5],
                        b[6], b[7]);
}

static void add_details(json_t *record)
{
    json_t *caps = json_array();

    for (size_t i = 0; i < sizeof(device_caps) / sizeof(device_caps[0]); i++)
        json_array_append_new(caps, json_string(device_caps[i]));
    json_object_set_new(record, "adaptive-moderation", json_false());
    json_object_set_new(record, "caps", caps);
}

static json_t *dev_record(const struct rdma_call *c, const struct ctl_device *d)
{
    json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:s}", "ifindex", (int)d->index, "ifname",
                               d->name, "node_type", "ca", "protocol", "roce", "fw", d->fw_version);

    json_object_set_new(record, "node_guid", guid_text(d->node_guid));
    json_object_set_new(record, "sys_image_guid", guid_text(d->node_guid));
    if (c->details)
        add_details(record);
    return record;
}

int rdma_dev_show(struct rdma_call *c)
{
    struct face f;
    json_t *records;
    size_t only = 0;
    int status;

    if (c->word[0] && c->word[1])
        return rdma_wrong("one device, or none: \"%s\" is too much", c->word[1]);
    status = ask(c, &f);
    if (status)
        return status;
    if (c->word[0] && !rdma_find_device(&only, devices_of(&f), c->word[0])) {
        face_close(&f);
        return rdma_failed("there is no device \"%s\"", c->word[0]);
    }
    records = json_array();
    for (size_t i = 0; i < f.devices; i++)
        if (!c->word[0] || i == only)
            json_array_append_new(records, dev_record(c, &f.device[i].info));
    face_close(&f);
    return rdma_print(c, RDMA_NUMBERED, records);
}

/* ---- link and statistic: a record for each port ---- */

static json_t *link_record(const struct face_device *d)
{
    json_t *record = json_pack("{s:i, s:s, s:i, s:s, s:s}", "ifindex", (int)d->info.index, "ifname",
                               d->info.name, "port", 1, "state", d->active ? "ACTIVE" : "DOWN",
                               "physical_state", d->active ? "LINK_UP" : "DISABLED");
    unsigned index = d->port.netdev[0] ? if_nametoindex(d->port.netdev) : 0;

    if (!index) /* it has none, or it is in another network namespace */
        return record;
    json_object_set_new(record, "netdev", json_string(d->port.netdev));
    json_object_set_new(record, "netdev_index", json_integer(index));
    return record;
}

static json_t *statistic_record(const struct face_device *d)
{
    json_t *record = json_pack("{s:s, s:i}", "ifname", d->info.name, "port", 1);

    for (const struct sys_counter *n = sys_counters; n->name; n++)
        if (!strcmp(n->folder, "hw_counters"))
            json_object_set_new(record, n->name, json_integer((json_int_t)sys_counter_value(n, d)));
    return record;
}

static int show_ports(struct rdma_call *c, enum rdma_head head,
                      json_t *(*make)(const struct face_device *d))
{
    struct rdma_place place = {.port = RDMA_ALL_PORTS};
    struct face f;
    json_t *records;
    int status;

    if (c->word[0] && c->word[1])
        return rdma_wrong("one port, or none: \"%s\" is too much", c->word[1]);
    status = ask(c, &f);
    if (status)
        return status;
    if (c->word[0] && !rdma_find_place(&place, devices_of(&f), c->word[0])) {
        face_close(&f);
        return 1;
    }
    records = json_array();
    for (size_t i = 0; i < f.devices && place.port != RDMA_NO_PORT; i++)
        if (!c->word[0] || i == place.device)
            json_array_append_new(records, make(&f.device[i]));
    face_close(&f);
    return rdma_print(c, head, records);
}

int rdma_link_show(struct rdma_call *c)
{
    return show_ports(c, RDMA_LINK, link_record);
}

int rdma_statistic_show(struct rdma_call *c)
{
    if (*c->word && !rdma_is(*c->word, "link"))
        return rdma_failed("statistic show %s is not supported: it shows links", *c->word);
    if (*c->word && !*++c->word)
        return rdma_wrong("\"link\" needs a port, as DEV/PORT");
    return show_ports(c, RDMA_COUNTERS, statistic_record);
}
