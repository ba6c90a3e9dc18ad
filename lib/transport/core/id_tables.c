/* SPDX-License-Identifier: BSD-3-Clause */
/* A device's tables of what packets and work requests name by number. */
#include "id_tables.h"

#include <stdlib.h>

struct qp_table *qp_table_create(const uint64_t secret[2])
{
    return (struct qp_table *)id_table_create(QPN_FIRST, QP_TABLE_SLOTS, secret);
}

void qp_table_destroy(struct qp_table *t)
{
    free(t);
}

void qp_table_prefer(struct qp_table *t, uint32_t qpn)
{
    id_table_prefer((struct id_table *)t, qpn);
}

struct qp *qp_table_lookup(const struct qp_table *t, uint32_t qpn)
{
    return id_table_lookup((const struct id_table *)t, qpn);
}

void qp_table_fetch(const struct qp_table *t, uint32_t qpn)
{
    id_table_fetch((const struct id_table *)t, qpn);
}

struct srq_table *srq_table_create(const uint64_t secret[2])
{
    return (struct srq_table *)id_table_create(1, SRQ_TABLE_SLOTS, secret);
}

void srq_table_destroy(struct srq_table *t)
{
    free(t);
}

struct srq *srq_table_lookup(const struct srq_table *t, uint32_t srqn)
{
    return id_table_lookup((const struct id_table *)t, srqn);
}

struct ah_table *ah_table_create(const uint64_t secret[2])
{
    return (struct ah_table *)id_table_create(1, AH_TABLE_SLOTS, secret);
}

void ah_table_destroy(struct ah_table *t)
{
    free(t);
}

struct address_handle *address_handle_create(struct ah_table *t, uint32_t pd,
                                             const struct address_vector *av, uint64_t rate,
                                             int *err)
{
    struct address_handle *ah = calloc(1, sizeof(*ah));

    *err = -ENOMEM;
    if (!ah)
        return NULL;
    ah->pd = rate ? PD_NONE : pd;
    ah->limited_pd = rate ? pd : PD_NONE;
    ah->pace.rate = rate;
    ah->av = *av;
    *err = encap_template_make(&ah->encap, av);
    if (!*err)
        *err = id_table_insert((struct id_table *)t, ah, &ah->handle);
    if (*err) {
        free(ah);
        return NULL;
    }
    return ah;
}

void address_handle_unpublish(struct ah_table *t, struct address_handle *ah)
{
    id_table_remove((struct id_table *)t, ah->handle, ah);
}

void address_handle_free(struct address_handle *ah)
{
    free(ah);
}

uint32_t address_handle_number(const struct address_handle *ah)
{
    return ah->handle;
}

const struct address_vector *address_handle_vector(const struct address_handle *ah)
{
    return &ah->av;
}

void address_handle_redirect(struct address_handle *ah, const uint8_t mac[6])
{
    memcpy(ah->av.dmac, mac, sizeof(ah->av.dmac));
    encap_template_redirect(&ah->encap, mac);
}

const struct address_handle *ah_find(const struct ah_table *t, uint32_t handle, uint32_t pd)
{
    const struct address_handle *ah =
        t ? id_table_lookup((const struct id_table *)t, handle) : NULL;

    return ah && ah->pd == pd ? ah : NULL;
}

struct address_handle *ah_find_limited(const struct ah_table *t, uint32_t handle, uint32_t pd)
{
    struct address_handle *ah = t ? id_table_lookup((const struct id_table *)t, handle) : NULL;

    return ah && ah->limited_pd == pd ? ah : NULL;
}
