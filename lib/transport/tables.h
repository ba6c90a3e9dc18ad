/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A device's tables, shared by its engines: what packets and WQEs name by number.
 */
#ifndef UROCE_TABLES_H
#define UROCE_TABLES_H

#include <stdint.h>

#include "encap.h"

struct qp;
struct srq;

#define QPN_NONE       0u /**< no queue pair's: RoCE has no subnet management (A16.6.2) */
#define QPN_GSI        1u /**< the host's: engine_host.gsi */
#define QPN_FIRST      0x10u
#define QP_TABLE_SLOTS (1u << 17)

/**
 * Queue pairs by number. The control thread writes, workers read. A removed queue pair is freed
 * after the workers' next quiet point.
 */
struct qp_table;

/**
 * Create an empty table. Control thread.
 *
 * @param secret  Random numbers that order the numbers given; copied. NULL or zeros: they count up.
 * @return  The table; NULL: out of memory.
 */
struct qp_table *qp_table_create(const uint64_t secret[2]);

/**
 * Free a table that is empty. Control thread.
 *
 * @param t  The table.
 */
void qp_table_destroy(struct qp_table *t);

/**
 * Give the next queue pair this number, if it is free; else nothing changes. For replaying recorded
 * traffic. Control thread.
 *
 * @param t  The table.
 * @param qpn  The number.
 */
void qp_table_prefer(struct qp_table *t, uint32_t qpn);

/**
 * The queue pair of a number. Any thread.
 *
 * @param t  The table.
 * @param qpn  Any number.
 * @return  The queue pair, valid until the worker's next quiet point; NULL: there is none.
 */
struct qp *qp_table_lookup(const struct qp_table *t, uint32_t qpn);

/**
 * Begin to fetch what qp_table_lookup() reads into the cache. Any thread. Does not wait.
 *
 * @param t  The table.
 * @param qpn  A number from the outside.
 */
void qp_table_fetch(const struct qp_table *t, uint32_t qpn);

/** Shared receive queues by number (XRC packets name them). */
#define SRQ_TABLE_SLOTS (1u << 16)

/** Shared receive queues by number (XRC packets name them). */
struct srq_table;

/**
 * Create an empty table. Control thread.
 *
 * @param secret  Random numbers that order the numbers given; copied. NULL or zeros: they count up.
 * @return  The table; NULL: out of memory.
 */
struct srq_table *srq_table_create(const uint64_t secret[2]);

/**
 * Free a table that is empty. Control thread.
 *
 * @param t  The table.
 */
void srq_table_destroy(struct srq_table *t);

/**
 * The shared receive queue of a number. Any thread.
 *
 * @param t  The table.
 * @param srqn  Any number.
 * @return  The queue, valid until the worker's next quiet point; NULL: there is none.
 */
struct srq *srq_table_lookup(const struct srq_table *t, uint32_t srqn);

#define AH_TABLE_SLOTS (1u << 16)

/** Address handles by number (UD work requests name them). */
struct ah_table;

/**
 * Create an empty table. Control thread.
 *
 * @param secret  Random numbers that order the numbers given; copied. NULL or zeros: they count up.
 * @return  The table; NULL: out of memory.
 */
struct ah_table *ah_table_create(const uint64_t secret[2]);

/**
 * Free a table that is empty. Control thread.
 *
 * @param t  The table.
 */
void ah_table_destroy(struct ah_table *t);

/**
 * Create an address handle. Control thread.
 *
 * @param t  The table that gets it.
 * @param pd  Its protection domain.
 * @param av  Where its packets go; copied.
 * @param rate  All datagrams to there leave at this rate at most, of all queue pairs together: bits
 *     per second from the Ethernet header on; 0: at any.
 * @param err  Set when the result is NULL.
 * @return  The handle; NULL and -ENOMEM, -ENOSPC (no number is free) or -EINVAL (as
 *     encap_template_make).
 */
struct address_handle *address_handle_create(struct ah_table *t, uint32_t pd,
                                             const struct address_vector *av, uint64_t rate,
                                             int *err);
/**
 * Take a handle out of its table: work requests no longer find it. Control thread.
 *
 * @param t  The table.
 * @param ah  The handle, freed after the workers' next quiet point.
 */
void address_handle_unpublish(struct ah_table *t, struct address_handle *ah);

/**
 * Free a handle that was unpublished. Control thread, after the workers' quiet point.
 *
 * @param ah  The handle.
 */
void address_handle_free(struct address_handle *ah);

/**
 * The number by which work requests name a handle. Any thread.
 *
 * @param ah  The handle.
 * @return  Its number.
 */
uint32_t address_handle_number(const struct address_handle *ah);

/**
 * Where a handle's packets go. Any thread.
 *
 * @param ah  The handle.
 * @return  Its address vector, as long as the handle.
 */
const struct address_vector *address_handle_vector(const struct address_handle *ah);
/**
 * Send later packets of a handle to another MAC. The worker that sends by it.
 *
 * @param ah  The handle.
 * @param mac  The new destination.
 */
void address_handle_redirect(struct address_handle *ah, const uint8_t mac[6]);

#endif
