/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of a line and their values. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"

void fail(struct script *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->message, sizeof(s->message), format, args);
    va_end(args);
    longjmp(s->failed, 1);
}

void split(struct script *s, const char *text)
{
    char *p = s->buffer, *word;

    snprintf(s->buffer, sizeof(s->buffer), "%s", text);
    p[strcspn(p, "#")] = '\0';
    s->words = s->at = 0;
    while ((word = strsep(&p, " \t\r\n")))
        if (*word && s->words < MAX_WORDS)
            s->word[s->words++] = word;
}

const char *next(struct script *s)
{
    return s->at < s->words ? s->word[s->at++] : NULL;
}

const char *need(struct script *s, const char *what)
{
    const char *word = next(s);

    if (!word)
        fail(s, "script: %s is missing", what);
    return word;
}

bool accept(struct script *s, const char *word)
{
    bool is = s->at < s->words && !strcmp(s->word[s->at], word);

    s->at += is;
    return is;
}

/* ---- numbers ---- */

static uint64_t symbol(struct script *s, const char *kind, const char *name)
{
    if (!strcmp(kind, "va"))
        return ((struct kit_mr *)object(s, OBJ_MR, name))->region.iova;
    if (!strcmp(kind, "key"))
        return ((struct kit_mr *)object(s, OBJ_MR, name))->region.key;
    if (!strcmp(kind, "mw"))
        return ((struct mem_region *)object(s, OBJ_MW, name))->key;
    if (!strcmp(kind, "qpn"))
        return qp_number(((struct script_qp *)object(s, OBJ_QP, name))->qp);
    if (!strcmp(kind, "srqn"))
        return srq_number(((struct script_srq *)object(s, OBJ_SRQ, name))->srq);
    if (!strcmp(kind, "ah"))
        return address_handle_number(object(s, OBJ_AH, name));
    fail(s, "script: what is %s:%s?", kind, name);
}

uint64_t number(struct script *s, const char *text)
{
    char *end = (char *)(uintptr_t)text;
    uint64_t value;

    if (isdigit((unsigned char)*text)) {
        value = strtoull(text, &end, 0);
    } else {
        char kind[NAME_LEN], name[NAME_LEN];
        int used = 0;

        if (sscanf(text, "%23[a-z]:%23[A-Za-z0-9_]%n", kind, name, &used) != 2)
            fail(s, "script: '%s' is no number", text);
        value = symbol(s, kind, name);
        end += used;
    }
    while (*end == '+' || *end == '-') {
        bool minus = *end == '-';
        uint64_t term = strtoull(end + 1, &end, 0);

        value = minus ? value - term : value + term;
    }
    if (*end)
        fail(s, "script: '%s' is no number", text);
    return value;
}

uint64_t need_number(struct script *s, const char *what)
{
    return number(s, need(s, what));
}

ns_t need_time(struct script *s)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const char *text = need(s, "a time");
    char *end;
    double value = strtod(text, &end);

    for (unsigned i = 0; i < ARRAY_SIZE(units); i++)
        if (end != text && !strcmp(end, units[i].unit))
            return (ns_t)(value * units[i].ns + 0.5);
    fail(s, "script: '%s' is no time", text);
}

struct kit_mr *need_range(struct script *s, uint32_t *off, uint32_t *len)
{
    const char *text = need(s, "NAME+OFFSET:LENGTH");
    char name[NAME_LEN];
    struct kit_mr *mr;

    if (sscanf(text, "%23[A-Za-z0-9_]+%u:%u", name, off, len) != 3)
        fail(s, "script: '%s' is no NAME+OFFSET:LENGTH", text);
    mr = object(s, OBJ_MR, name);
    return mr;
}

void need_data(struct script *s, uint32_t *seed, uint32_t *off)
{
    const char *text = need(s, "SEED[+OFFSET]");

    *off = 0;
    if (sscanf(text, "%u+%u", seed, off) < 1)
        fail(s, "script: '%s' is no SEED[+OFFSET]", text);
}

/* ---- names ---- */

uint32_t named(struct script *s, const struct name *table, const char *text, const char *what)
{
    for (; table->name; table++)
        if (!strcmp(table->name, text))
            return table->value;
    if (isdigit((unsigned char)*text))
        return (uint32_t)number(s, text);
    fail(s, "script: '%s' is no %s", text, what);
}

const char *name_of(const struct name *table, uint32_t value)
{
    static char text[16];

    for (; table->name; table++)
        if (table->value == value)
            return table->name;
    snprintf(text, sizeof(text), "%u", value);
    return text;
}

#define N(prefix, name)     \
    {                       \
#name, prefix##name \
    }
const struct name state_names[] = {
    N(QPS_, RESET), N(QPS_, INIT), N(QPS_, RTR), N(QPS_, RTS),
    N(QPS_, SQD),   N(QPS_, SQE),  N(QPS_, ERR), {0},
};
const struct name event_names[] = {
    N(QP_EVENT_, CQ_ERR),           N(QP_EVENT_, QP_FATAL),
    N(QP_EVENT_, QP_REQ_ERR),       N(QP_EVENT_, QP_ACCESS_ERR),
    N(QP_EVENT_, COMM_EST),         N(QP_EVENT_, SQ_DRAINED),
    N(QP_EVENT_, SRQ_ERR),          N(QP_EVENT_, SRQ_LIMIT_REACHED),
    N(QP_EVENT_, LAST_WQE_REACHED), {0},
};
const struct name status_names[] = {
    N(WC_, SUCCESS),         N(WC_, LOC_LEN_ERR),
    N(WC_, LOC_QP_OP_ERR),   N(WC_, LOC_PROT_ERR),
    N(WC_, WR_FLUSH_ERR),    N(WC_, MW_BIND_ERR),
    N(WC_, BAD_RESP_ERR),    N(WC_, LOC_ACCESS_ERR),
    N(WC_, REM_INV_REQ_ERR), N(WC_, REM_ACCESS_ERR),
    N(WC_, REM_OP_ERR),      N(WC_, RETRY_EXC_ERR),
    N(WC_, FATAL_ERR),       N(WC_, RNR_RETRY_EXC_ERR),
    N(WC_, GENERAL_ERR),     {0},
};
const struct name wc_names[] = {
    N(WC_, SEND),         N(WC_, RDMA_WRITE), N(WC_, RDMA_READ),          N(WC_, COMP_SWAP),
    N(WC_, FETCH_ADD),    N(WC_, BIND_MW),    N(WC_, LOCAL_INV),          N(WC_, FLUSH),
    N(WC_, ATOMIC_WRITE), N(WC_, RECV),       N(WC_, RECV_RDMA_WITH_IMM), {0},
};
#undef N
const struct name errno_names[] = {
    {"EINVAL", EINVAL},
    {"EOPNOTSUPP", EOPNOTSUPP},
    {"ENOENT", ENOENT},
    {"EFAULT", EFAULT},
    {"ESRCH", ESRCH},
    {"EEXIST", EEXIST},
    {0},
};
const struct name net_names[] = {
    {"v4", KIT_GID_V4},
    {"v6", KIT_GID_V6},
    {"v1", KIT_GID_V4_ROCEV1},
    {"vlan", KIT_GID_V6_VLAN},
    {0},
};
const struct name type_names[] = {
    {"rc", QPT_RC},
    {"uc", QPT_UC},
    {"ud", QPT_UD},
    {"xrc_send", QPT_XRC_SEND},
    {"xrc_recv", QPT_XRC_RECV},
    {0},
};

uint32_t need_access(struct script *s)
{
    static const struct name rights[] = {
        {"local", MEM_LOCAL_WRITE},
        {"write", MEM_REMOTE_WRITE},
        {"read", MEM_REMOTE_READ},
        {"atomic", MEM_REMOTE_ATOMIC},
        {"bind", MEM_MW_BIND},
        {"flush", MEM_FLUSH_GLOBAL},
        {"persist", MEM_FLUSH_PERSISTENT},
        {"zero", MEM_ZERO_BASED},
        {"none", 0},
        {0},
    };
    char list[128], *rest = list, *word;
    uint32_t access = 0;

    snprintf(list, sizeof(list), "%s", need(s, "access rights"));
    while ((word = strsep(&rest, ",")))
        access |= named(s, rights, word, "access right");
    return access;
}

/* ---- fields ---- */

const struct field *find_field(const struct field *table, const char *name)
{
    for (; table->name; table++)
        if (!strcmp(table->name, name))
            return table;
    return NULL;
}

void field_set(const struct field *f, void *base, uint64_t value)
{
    memcpy((char *)base + f->offset, &value, f->size);
}

uint64_t field_get(const struct field *f, const void *base)
{
    uint64_t value = 0;

    memcpy(&value, (const char *)base + f->offset, f->size);
    return value;
}
