/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a laboratory's text about what fails. */
#include "line.h"

#include <errno.h>
#include <string.h>

static int add_change(struct line_parser *p, const struct lab_change *change)
{
    int err = lab_add_change(p->spec, change);

    return err < 0 ? line_fail_with(p, err, p->word[0]) : 0;
}

int line_link_fails(struct line_parser *p)
{
    struct lab_fault f = {0};
    struct lab_change change;
    int err;

    if (line_find_port(p, &change.port) || line_apply_keys(p, 3, LAB_FAULT, &f))
        return -EINVAL;
    if (f.until && f.until <= f.at)
        return line_fail(p, "until= comes after at=");
    change.at = f.at;
    change.frames = 0;
    change.kind = f.silent ? LAB_BLACK : LAB_DOWN;
    err = add_change(p, &change);
    change.at = f.until;
    change.kind = LAB_UP;
    return err || !f.until ? err : add_change(p, &change);
}

static int make_change(struct line_parser *p, enum lab_change_kind kind)
{
    struct lab_fault f = {.frames = 1};
    struct lab_change change = {.kind = kind};

    if (line_find_port(p, &change.port) || line_apply_keys(p, 3, LAB_FAULT, &f))
        return -EINVAL;
    change.at = f.at;
    change.frames = f.frames;
    return add_change(p, &change);
}

int line_mark(struct line_parser *p)
{
    return make_change(p, LAB_MARK);
}

int line_lose(struct line_parser *p)
{
    return make_change(p, LAB_LOSE);
}

/* The words behind the first one, with a blank between two; word[] is void then. */
static char *rest_of_line(struct line_parser *p)
{
    char *at = p->text;

    for (unsigned i = 1; i < p->words; i++) {
        size_t len = strlen(p->word[i]);

        memmove(at, p->word[i], len);
        at += len;
        *at++ = ' ';
    }
    at[p->words > 1 ? -1 : 0] = '\0';
    return p->text;
}

int line_rule(struct line_parser *p)
{
    char error[INJECT_ERROR_MAX];
    int err = lab_read_rule(p->spec, rest_of_line(p), error);

    if (!err)
        return 0;
    line_fail(p, "%s", error);
    return err == -ENOMEM ? err : -EINVAL;
}
