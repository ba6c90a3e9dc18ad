/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of rsockets and of sets of them (repoll_create). Any thread. */
#ifndef UROCE_RS_TABLE_H
#define UROCE_RS_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum rs_kind {
    RS_SOCKET,
    RS_SET,
};

struct rs_object {
    int fd;
    enum rs_kind kind;
    uint64_t serial;                           /* descriptors are used again, these numbers not */
    atomic_uint refs;                          /* the table's is one */
    void (*destroy)(struct rs_object *object); /* when the last reference is gone */
};

/* Gives a descriptor to an object, whose only reference is the table's then. -EMFILE, -ENOMEM. */
int rs_table_add(struct rs_object *object);

/* An object of this kind with one more reference, or NULL. */
struct rs_object *rs_table_get(int fd, enum rs_kind kind);

/* The serial number of a descriptor's object, or 0: there is none. */
uint64_t rs_table_serial(int fd);

/* Calls `visit` for each object, which has one more reference then, unless another thread is at its
 * descriptor. */
void rs_table_each(void (*visit)(struct rs_object *object, void *arg), void *arg);

/* Takes it out of the table; the table's reference is the caller's. False: another thread did. */
bool rs_table_remove(struct rs_object *object);

void rs_object_put(struct rs_object *object);

#endif
