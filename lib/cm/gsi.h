/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the general services interface (queue pair 1) does with MADs that are no messages of the
 * communication manager (13.4.5 to 13.4.8, 13.5): a table of management classes and their handlers,
 * ClassPortInfo of the manager's class, and a status for every other request. cm_rx() uses it, and
 * cm_class_register() makes a row. Pure; a table is used by one thread at a time.
 *
 * Classes of vendors and applications may have a handler. Those of subnet management never have: on
 * RoCE there is no queue pair 0, and queue pair 1 does not take its place.
 */
#ifndef UROCE_GSI_H
#define UROCE_GSI_H

#include <stddef.h>

#include "mad.h"

struct cm_path;

/** Capabilities in the manager's ClassPortInfo (16.7.3.1). */
#define GSI_CM_RELIABLE_CONNECTIONS   (1u << 9)
#define GSI_CM_UNRELIABLE_CONNECTIONS (1u << 12)
#define GSI_CM_SIDR                   (1u << 13)

/** Handlers of one table. */
#define GSI_CLASSES_MAX 8

/** What a handler did with a MAD. */
enum gsi_verdict {
    GSI_TAKEN,    /**< all that is to be done; nothing is sent */
    GSI_ANSWER,   /**< the answer is to be sent, with the handler's status and attribute */
    GSI_NOT_MINE, /**< a stranger's, as by its OUI: treated as of a class without a handler */
};

/** Who handles the MADs of a class, requests and responses. */
struct gsi_handler {
    /**
     * A whole MAD of the class, of the base version.
     *
     * @param ctx  The row's.
     * @param way  Where an answer goes to: dgid is who sent the MAD, which nothing proves.
     * @param mad  MAD_LEN bytes from the wire: nothing but base version and class is checked.
     * @param answer  MAD_LEN bytes: the MAD as a response of status OK, for the handler to change;
     *     NULL when the MAD is a response itself, or of a method without one.
     * @return  What it did; GSI_ANSWER only with an answer.
     */
    enum gsi_verdict (*rx)(void *ctx, const struct cm_path *way, const uint8_t *mad,
                           uint8_t *answer);
    void *ctx;
};

/** Classes with a handler. All zeros: none. */
struct gsi_classes {
    unsigned count;
    struct gsi_class {
        uint8_t mgmt_class;
        struct gsi_handler handler;
    } row[GSI_CLASSES_MAX];
};

/**
 * Give a class a handler.
 *
 * @param t  The table.
 * @param mgmt_class  A class of vendors (0x09 to 0x0F, and 0x30 to 0x4F with an OUI) or of
 *     applications (0x10 to 0x2F).
 * @param handler  Copied; its ctx must outlive the row.
 * @return  0; -EINVAL: no such class; -EBUSY: it has a handler; -ENOSPC: the table is full.
 */
int gsi_classes_add(struct gsi_classes *t, uint8_t mgmt_class, const struct gsi_handler *handler);

/**
 * Take a class its handler.
 *
 * @param t  The table.
 * @param mgmt_class  The class; without a handler nothing happens.
 */
void gsi_classes_remove(struct gsi_classes *t, uint8_t mgmt_class);

/**
 * Give a MAD to the handler of its class.
 *
 * @param t  The table.
 * @param way  The way of an answer.
 * @param answer  Set, if GSI_ANSWER: MAD_LEN bytes.
 * @param mad  The MAD, no message of the communication manager.
 * @param len  Its length, any.
 * @return  The handler's verdict; GSI_NOT_MINE without a handler, or when the MAD is not whole or
 *     of another base version.
 */
enum gsi_verdict gsi_classes_rx(const struct gsi_classes *t, const struct cm_path *way,
                                uint8_t *answer, const uint8_t *mad, size_t len);

/**
 * Answer a MAD that no handler took.
 *
 * @param answer  Set: MAD_LEN bytes.
 * @param mad  The MAD, no message of the communication manager.
 * @param len  Its length, any.
 * @return  False: it is not whole, a response, or of a method that has no response; nothing is to
 *     be sent.
 */
bool gsi_answer(uint8_t *answer, const uint8_t *mad, size_t len);

/**
 * Whether a MAD is a REQ of another class version, which a REJ answers.
 *
 * @param mad  The MAD, no message of the communication manager.
 * @param len  Its length, any.
 * @return  True when it is.
 */
bool gsi_is_req_of_another_version(const uint8_t *mad, size_t len);

#endif
