/* SPDX-License-Identifier: BSD-3-Clause */
/* Where JSON is written, an item at a time: a file that a session is charged for, or memory. */
#ifndef UROCE_DEVICE_SHOW_OUT_H
#define UROCE_DEVICE_SHOW_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct show_out {
    int fd;             /* or -1: the text stays in memory */
    struct session *sn; /* that is charged for the file's pages; NULL: none */
    uint64_t charged;   /* bytes, before they are written */
    uint64_t written;
    char *text; /* not yet written */
    size_t length, room;
    bool is_first; /* nothing precedes the next item or member */
    int err;       /* -ENOMEM: out of memory, or a quota is used up; nothing more is written */
};

/* fd and sn as above; the file stays the caller's. */
void show_out_init(struct show_out *o, int fd, struct session *sn);
/* Frees the text that was not taken. The charge stays. */
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

#endif
