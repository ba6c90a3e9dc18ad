/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: whether each is mapped or copied, and why. */
#include "show/show.h"

#include <stdio.h>

#include "control/session_state.h"
#include "objects/pd_mr.h"

static const char *const why_name[CTL_MR_WHYS] = {
    [CTL_MR_UNKNOWN] = "unknown",
    [CTL_MR_SHARED] = "shared",
    [CTL_MR_ADOPTED] = "adopted",
    [CTL_MR_OFF] = "off",
    [CTL_MR_SMALL] = "small",
    [CTL_MR_COLD] = "cold",
    [CTL_MR_ON_DEMAND] = "on_demand",
    [CTL_MR_TOOL] = "tool",
    [CTL_MR_KERNEL] = "kernel",
    [CTL_MR_NO_UFFD] = "no_userfaultfd",
    [CTL_MR_NOT_PRIVATE] = "not_private",
    [CTL_MR_NO_ACCESS] = "no_access",
    [CTL_MR_STACK] = "stack",
    [CTL_MR_SPARSE] = "sparse",
    [CTL_MR_SPLIT] = "split",
    [CTL_MR_OVERLAPS] = "overlaps",
    [CTL_MR_PINNED] = "pinned",
    [CTL_MR_NO_ROOM] = "no_room",
    [CTL_MR_NO_MEMORY] = "no_memory",
    [CTL_MR_FORKED] = "forked",
    [CTL_MR_BUSY] = "busy",
    [CTL_MR_FAILED] = "failed",
    [CTL_MR_REFUSED] = "refused",
    [CTL_MR_DEVICE] = "device_memory",
    [CTL_MR_NOTHING] = "null",
};

static json_t *show_mr(const struct viewer *v, const struct session *sn, const struct mr *mr)
{
    const struct mem_region *r = &mr->region;
    json_t *o = json_object();
    char addr[24];

    snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)r->addr);
    json_object_set_new(o, "device", json_string(sn->device->name));
    json_object_set_new(o, "pid", show_number((uint64_t)sn->peer.pid));
    json_object_set_new(o, "handle", show_number(mr->o.handle));
    json_object_set_new(o, "pd", show_number(r->pd));
    if (v->all) {
        json_object_set_new(o, "address", json_string(addr));
        json_object_set_new(o, "key", show_number(r->key));
    }
    json_object_set_new(o, "length", show_number(r->len));
    json_object_set_new(o, "access", show_number(r->access));
    json_object_set_new(o, "backend", json_string(r->direct ? "mapped" : r->backend->name));
    json_object_set_new(o, "why", json_string(why_name[mr->why]));
    json_object_set_new(o, "uses",
                        show_number(atomic_load_explicit(&r->heat.uses, memory_order_relaxed)));
    return o;
}

void show_mrs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = show_mr(v, o[i]->session, container_of(o[i], struct mr, o));
}

static json_t *show_reasons(const uint64_t count[CTL_MR_WHYS])
{
    json_t *reasons = json_object();

    for (unsigned i = 0; i < CTL_MR_WHYS; i++)
        if (count[i])
            json_object_set_new(reasons, why_name[i], show_number(count[i]));
    return reasons;
}

void show_mr_reasons(json_t *session, const struct session *sn)
{
    uint64_t count[CTL_MR_WHYS];

    for (unsigned i = 0; i < CTL_MR_WHYS; i++)
        count[i] = sn->mrs_why[i];
    json_object_set_new(session, "mrs_why", show_reasons(count));
}

void show_mr_counts(json_t *device, const struct device *d)
{
    json_object_set_new(device, "mrs_denied", show_number(d->mrs_denied));
    json_object_set_new(device, "mrs_why", show_reasons(d->mrs_why));
}
