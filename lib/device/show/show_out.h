/* SPDX-License-Identifier: BSD-3-Clause */
/* Where JSON is written, an item at a time: a file that a session is charged for, memory, or a tree
 * of values. */
#ifndef UROCE_DEVICE_SHOW_OUT_H
#define UROCE_DEVICE_SHOW_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

#define SHOW_OUT_DEPTH 8 /* objects and lists in each other */

struct show_out {
    int fd;             /* or -1: the text stays in memory */
    struct session *sn; /* that is charged for the file's pages; NULL: none */
    uint64_t charged;   /* bytes, before they are written */
    uint64_t written;
    char *text; /* not yet written */
    size_t length, room;
    bool is_first; /* nothing precedes the next item or member */
    /* Of a tree: what is not yet closed, from the root on, which owns the others. */
    json_t *open[SHOW_OUT_DEPTH];
    unsigned depth;
    bool is_tree;
    json_t *tree; /* the root, once it is closed */
    int err;      /* -ENOMEM: out of memory, or a quota is used up; nothing more is written */
};

/* fd and sn as above; the file stays the caller's. */
void show_out_init(struct show_out *o, int fd, struct session *sn);
/* There is no text: the items become parts of a tree. */
void show_out_init_tree(struct show_out *o);
/* Frees the text or the tree that was not taken. The charge stays. */
void show_out_fini(struct show_out *o);

/* An object that is an item of a list, or (name not NULL) a member; a list that is a member. */
void show_out_object(struct show_out *o, const char *name);
void show_out_object_end(struct show_out *o);
void show_out_list(struct show_out *o, const char *name);
void show_out_list_end(struct show_out *o);
/* The next item of a list; all members of an object. Both are freed. */
void show_out_item(struct show_out *o, json_t *item);
void show_out_members(struct show_out *o, json_t *object);

/* The end: all is in the file, and just its pages are charged. */
void show_out_finish(struct show_out *o);
/* The text of an output without a file, for the caller to free; NULL: o->err. */
char *show_out_text(struct show_out *o);
/* The tree, for the caller to free; NULL: o->err. */
json_t *show_out_tree(struct show_out *o);

#endif
