/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections by what their peer is: its communication ID (a repeated REQ), its queue pair (a stale
 * connection), the service ID that both sides ask for (peer to peer). A CA GUID is a claim that
 * every sender can make; the address that packets come from is part of each key, so that one host
 * cannot speak for another one's connections.
 */
#include "cm_state.h"

/* What tells the keys of one kind from those of another. */
enum key_kind {
    KEY_COMM_ID,
    KEY_QPN,
    KEY_SERVICE,
};

static uint64_t hash_of(const struct cm *cm, enum key_kind kind, const union gid *peer, uint64_t a,
                        uint64_t b)
{
    uint64_t key[] = {kind, peer->word[0], peer->word[1], a, b};

    return cm_hash_of(cm->config.secret, key, ARRAY_SIZE(key));
}

/* Whether the id's packets go where the way comes from: the same address on another network is
 * another host. */
static bool is_of(const struct cm_id *id, const struct cm_path *way)
{
    return gid_eq(&id->path.dgid, &way->dgid) && id->path.port == way->port &&
           id->path.vlan == way->vlan;
}

void cm_remote_add_id(struct cm_id *id)
{
    cm_hash_add(
        &id->cm->by_remote_id, &id->by_remote_id,
        hash_of(id->cm, KEY_COMM_ID, &id->path.dgid, id->remote_ca_guid, id->remote_comm_id));
}

void cm_remote_add_qpn(struct cm_id *id)
{
    cm_hash_add(&id->cm->by_remote_qpn, &id->by_remote_qpn,
                hash_of(id->cm, KEY_QPN, &id->path.dgid, id->remote_ca_guid, id->remote_qpn));
}

void cm_remote_add_peer(struct cm_id *id)
{
    cm_hash_add(&id->cm->by_service, &id->by_service,
                hash_of(id->cm, KEY_SERVICE, &id->path.dgid, id->service_id, 0));
}

void cm_remote_remove_id(struct cm_id *id)
{
    cm_hash_remove(&id->cm->by_remote_id, &id->by_remote_id);
}

void cm_remote_remove_qpn(struct cm_id *id)
{
    cm_hash_remove(&id->cm->by_remote_qpn, &id->by_remote_qpn);
}

void cm_remote_remove_peer(struct cm_id *id)
{
    cm_hash_remove(&id->cm->by_service, &id->by_service);
}

struct cm_id *cm_remote_find_id(const struct cm *cm, const struct cm_path *way, uint64_t ca_guid,
                                uint32_t comm_id)
{
    uint64_t hash = hash_of(cm, KEY_COMM_ID, &way->dgid, ca_guid, comm_id);

    for (struct cm_hash_node *n = cm_hash_first(&cm->by_remote_id, hash); n; n = cm_hash_next(n)) {
        struct cm_id *id = container_of(n, struct cm_id, by_remote_id);

        if (id->remote_comm_id == comm_id && id->remote_ca_guid == ca_guid && is_of(id, way))
            return id;
    }
    return NULL;
}

struct cm_id *cm_remote_find_qpn(const struct cm *cm, const struct cm_path *way, uint64_t ca_guid,
                                 uint32_t qpn)
{
    uint64_t hash = hash_of(cm, KEY_QPN, &way->dgid, ca_guid, qpn);

    for (struct cm_hash_node *n = cm_hash_first(&cm->by_remote_qpn, hash); n; n = cm_hash_next(n)) {
        struct cm_id *id = container_of(n, struct cm_id, by_remote_qpn);

        if (id->remote_qpn == qpn && id->remote_ca_guid == ca_guid && is_of(id, way))
            return id;
    }
    return NULL;
}

struct cm_id *cm_remote_find_peer(const struct cm *cm, const struct cm_path *way,
                                  uint64_t service_id, uint32_t not_this)
{
    uint64_t hash = hash_of(cm, KEY_SERVICE, &way->dgid, service_id, 0);

    for (struct cm_hash_node *n = cm_hash_first(&cm->by_service, hash); n; n = cm_hash_next(n)) {
        struct cm_id *id = container_of(n, struct cm_id, by_service);

        if (id->service_id == service_id && is_of(id, way) && id->local_comm_id != not_this)
            return id;
    }
    return NULL;
}
