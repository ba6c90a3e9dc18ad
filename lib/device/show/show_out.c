/* SPDX-License-Identifier: BSD-3-Clause */
/* See show_out.h. */
#include "show/show_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/session_state.h"
#include "invariant.h"
#include "show/shown.h"

#define PAGE   4096u
#define BUFFER 65536u
/* What is charged at once. The first also covers what a job has in memory. */
#define CHARGE (256u << 10)

void show_out_init(struct show_out *o, int fd, struct session *sn)
{
    *o = (struct show_out){.fd = fd, .sn = sn, .is_first = true};
}

void show_out_init_tree(struct show_out *o)
{
    show_out_init(o, -1, NULL);
    o->is_tree = true;
}

void show_out_fini(struct show_out *o)
{
    free(o->text);
    o->text = NULL;
    json_decref(o->tree ? o->tree : o->open[0]);
    o->tree = o->open[0] = NULL;
}

/* ---- bytes ---- */

static void flush(struct show_out *o)
{
    size_t done = 0;

    while (done < o->length && !o->err) {
        ssize_t n = write(o->fd, o->text + done, o->length - done);

        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            o->err = -ENOMEM;
    }
    o->written += done;
    o->length = 0;
}

static int charge(struct show_out *o, uint64_t bytes)
{
    struct quota_cost cost = shown_cost(o->sn, 0, bytes);
    int err = quota_charge(&o->sn->account, &cost);

    if (!err)
        o->charged += bytes;
    return err;
}

/* Room for n more bytes; in a file's buffer, for n of at most BUFFER. */
static int make_room(struct show_out *o, size_t n)
{
    size_t room = o->fd >= 0 ? BUFFER : max_of(2 * o->room, o->length + n);
    char *text;

    if (o->sn && o->written + o->length + n > o->charged && charge(o, CHARGE))
        return -ENOMEM;
    if (o->length + n <= o->room)
        return 0;
    if (o->fd >= 0 && o->text) {
        flush(o);
        return o->err;
    }
    text = realloc(o->text, room);
    if (!text)
        return -ENOMEM;
    o->text = text;
    o->room = room;
    return 0;
}

static int append(const char *bytes, size_t n, void *arg)
{
    struct show_out *o = arg;

    while (n && !o->err) {
        size_t part = min_of(n, (size_t)BUFFER);

        o->err = make_room(o, part);
        if (o->err)
            break;
        memcpy(o->text + o->length, bytes, part);
        o->length += part;
        bytes += part;
        n -= part;
    }
    return o->err ? -1 : 0;
}

static void put(struct show_out *o, const char *text)
{
    append(text, strlen(text), o);
}

static void put_json(struct show_out *o, json_t *value)
{
    if (!o->err && json_dump_callback(value, append, o, JSON_PRESERVE_ORDER | JSON_ENCODE_ANY))
        o->err = -ENOMEM;
}

/* ---- a tree ---- */

/* Adds a value to the innermost object or list. Afterwards that owns it. */
static void add_to_tree(struct show_out *o, const char *name, json_t *value)
{
    json_t *in = o->depth ? o->open[o->depth - 1] : NULL;
    int err = !value;

    if (in && !err)
        err = json_is_object(in) ? json_object_set_new(in, name, value)
                                 : json_array_append_new(in, value);
    if (err)
        o->err = -ENOMEM;
}

static void open_in_tree(struct show_out *o, const char *name, json_t *value)
{
    if (o->err) {
        json_decref(value);
        return;
    }
    invariant(o->depth < SHOW_OUT_DEPTH);
    add_to_tree(o, name, value);
    if (!o->err)
        o->open[o->depth++] = value;
}

static void close_in_tree(struct show_out *o)
{
    if (!o->err && !--o->depth)
        o->tree = o->open[0];
}

/* ---- JSON ---- */

static void separate(struct show_out *o)
{
    if (o->written || o->length) /* not the whole answer */
        put(o, o->is_first ? "\n " : ",\n ");
    o->is_first = false;
}

static void put_name(struct show_out *o, const char *name)
{
    separate(o);
    if (name) {
        put(o, "\"");
        put(o, name);
        put(o, "\": ");
    }
}

void show_out_object(struct show_out *o, const char *name)
{
    if (o->is_tree) {
        open_in_tree(o, name, json_object());
        return;
    }
    put_name(o, name);
    put(o, "{");
    o->is_first = true;
}

void show_out_object_end(struct show_out *o)
{
    if (o->is_tree) {
        close_in_tree(o);
        return;
    }
    put(o, "}");
    o->is_first = false;
}

void show_out_list(struct show_out *o, const char *name)
{
    if (o->is_tree) {
        open_in_tree(o, name, json_array());
        return;
    }
    put_name(o, name);
    put(o, "[");
    o->is_first = true;
}

void show_out_list_end(struct show_out *o)
{
    if (o->is_tree) {
        close_in_tree(o);
        return;
    }
    put(o, "]");
    o->is_first = false;
}

void show_out_item(struct show_out *o, json_t *item)
{
    if (o->is_tree) {
        if (o->err)
            json_decref(item);
        else
            add_to_tree(o, NULL, item);
        return;
    }
    separate(o);
    put_json(o, item);
    json_decref(item);
}

void show_out_members(struct show_out *o, json_t *object)
{
    const char *name;
    json_t *value;

    if (!object && !o->err)
        o->err = -ENOMEM;
    if (o->is_tree) {
        if (!o->err && json_object_update(o->open[o->depth - 1], object))
            o->err = -ENOMEM;
        json_decref(object);
        return;
    }
    json_object_foreach(object, name, value)
    {
        put_name(o, name);
        put_json(o, value);
    }
    json_decref(object);
}

void show_out_finish(struct show_out *o)
{
    uint64_t pages;
    struct quota_cost rest;

    if (o->fd >= 0)
        flush(o);
    pages = round_up(o->written, (uint64_t)PAGE);
    if (!o->sn || o->charged <= pages)
        return;
    rest = shown_cost(o->sn, 0, o->charged - pages);
    quota_uncharge(&o->sn->account, &rest);
    o->charged = pages;
}

char *show_out_text(struct show_out *o)
{
    char *text;

    append("", 1, o);
    text = o->text;
    if (o->err)
        return NULL;
    o->text = NULL;
    return text;
}

json_t *show_out_tree(struct show_out *o)
{
    json_t *tree = o->err ? NULL : o->tree;

    if (tree)
        o->tree = o->open[0] = NULL;
    return tree;
}
