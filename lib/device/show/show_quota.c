/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas: what connections and users have, may have, and were refused. */
#include "show/show.h"

#include "control/session_state.h"

void show_account(json_t *client, const struct session *sn)
{
    const struct quota_account *a = &sn->account;
    uint64_t refused = 0;

    for (unsigned k = QUOTA_MAPPING; k < QUOTA_KINDS; k++)
        json_object_set_new(client, quota_kind_name((enum quota_kind)k), show_number(a->used[k]));
    for (unsigned k = 0; k < QUOTA_KINDS; k++)
        refused += a->refused[k];
    json_object_set_new(client, "refused", show_number(refused));
}

/* A row for a kind, unless there is nothing to tell. d: the device with that kind, or NULL. */
static void add_row(json_t *rows, json_t *uid, const struct device *d, enum quota_kind kind,
                    uint64_t limit, const uint64_t *used, const uint64_t *refused)
{
    unsigned i = quota_count(d ? d->index : 0, kind);
    json_t *row;

    if (!used[i] && !refused[i])
        return;
    row = json_object();
    json_object_set(row, "uid", uid);
    if (d)
        json_object_set_new(row, "device", json_string(d->name));
    json_object_set_new(row, "kind", json_string(quota_kind_name(kind)));
    json_object_set_new(row, "used", show_number(used[i]));
    if (limit != UINT64_MAX)
        json_object_set_new(row, "limit", show_number(limit));
    json_object_set_new(row, "refused", show_number(refused[i]));
    json_array_append_new(rows, row);
}

/* u NULL: all users together. */
static void add_user(json_t *rows, const struct rnic *r, const struct quota_user *u)
{
    const struct quota *q = &r->quota;
    json_t *uid = u ? show_number(u->uid) : json_string("all");

    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        unsigned devices = k < QUOTA_DEVICE_KINDS ? r->devices : 1;
        enum quota_kind kind = (enum quota_kind)k;
        uint64_t limit = u ? quota_user_limit(q, u->uid, kind) : q->limit[k].total;

        for (unsigned i = 0; i < devices; i++)
            add_row(rows, uid, k < QUOTA_DEVICE_KINDS ? r->device[i] : NULL, kind, limit,
                    u ? u->used : q->used, u ? u->refused : q->refused);
    }
    json_decref(uid);
}

json_t *show_user_quotas(const struct viewer *v, const struct rnic *r, unsigned number)
{
    const struct quota_user *u;
    json_t *rows = json_array();

    LIST_FOREACH(u, &r->quota.users, link)
    {
        if ((v->all || v->uid == u->uid) && !number--) {
            add_user(rows, r, u);
            return rows;
        }
    }
    if (v->all && !number) {
        add_user(rows, r, NULL);
        return rows;
    }
    json_decref(rows);
    return NULL;
}
