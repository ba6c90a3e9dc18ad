/* SPDX-License-Identifier: BSD-3-Clause */
/* The details of incidents, in JSON: numbers, and words for those that stand for one. */
#include "show/show_detail.h"

#include <stdio.h>
#include <string.h>

#include "cause.h"
#include "control/incident_call.h"
#include "control/session_state.h"
#include "device_host.h"
#include "drop.h"
#include "inject.h"
#include "mem_window.h"
#include "mr_about.h"
#include "opcode.h"

const char *show_operation(uint64_t opcode)
{
    static const char *const name[] = {
        [WC_SEND] = "SEND",
        [WC_RDMA_WRITE] = "RDMA WRITE",
        [WC_RDMA_READ] = "RDMA READ",
        [WC_COMP_SWAP] = "COMPARE AND SWAP",
        [WC_FETCH_ADD] = "FETCH ADD",
        [WC_BIND_MW] = "BIND WINDOW",
        [WC_LOCAL_INV] = "LOCAL INVALIDATE",
        [WC_FLUSH] = "FLUSH",
        [WC_ATOMIC_WRITE] = "ATOMIC WRITE",
    };

    if (opcode >= WC_RECV)
        return "RECEIVE";
    return opcode < ARRAY_SIZE(name) && name[opcode] ? name[opcode] : "?";
}

/* All rights of a region, a window or a queue pair, or the one that an access needs. */
static json_t *rights(uint64_t access)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } right[] = {{MEM_LOCAL_WRITE, "local write"},
                 {MEM_REMOTE_WRITE, "remote write"},
                 {MEM_REMOTE_READ, "remote read"},
                 {MEM_REMOTE_ATOMIC, "remote atomic"},
                 {MEM_MW_BIND, "mw bind"},
                 {MEM_FLUSH_GLOBAL, "flush global"},
                 {MEM_FLUSH_PERSISTENT, "flush persistent"}};
    char text[ARRAY_SIZE(right) * 16] = "";

    for (unsigned i = 0; i < ARRAY_SIZE(right); i++)
        if (access & right[i].bit)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", *text ? ", " : "",
                     right[i].name);
    return json_string(*text ? text : "local read");
}

/* Attributes as ibv_modify_qp names them. */
static json_t *attributes(uint64_t mask)
{
    static const char *const name[] = {"STATE",
                                       "CUR_STATE",
                                       "EN_SQD_ASYNC_NOTIFY",
                                       "ACCESS_FLAGS",
                                       "PKEY_INDEX",
                                       "PORT",
                                       "QKEY",
                                       "AV",
                                       "PATH_MTU",
                                       "TIMEOUT",
                                       "RETRY_CNT",
                                       "RNR_RETRY",
                                       "RQ_PSN",
                                       "MAX_QP_RD_ATOMIC",
                                       "ALT_PATH",
                                       "MIN_RNR_TIMER",
                                       "SQ_PSN",
                                       "MAX_DEST_RD_ATOMIC",
                                       "PATH_MIG_STATE",
                                       "CAP",
                                       "DEST_QPN"};
    char text[ARRAY_SIZE(name) * 32] = "";

    for (unsigned i = 0; i < ARRAY_SIZE(name); i++)
        if (mask >> i & 1)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sIBV_QP_%s",
                     *text ? " " : "", name[i]);
    return json_string(*text ? text : "other");
}

/* ---- words ---- */

static const char *const sides[] = {
    [WHY_SEND_SOURCE] = "the source of the work request",
    [WHY_SEND_TARGET] = "the destination of the work request's result",
    [WHY_RECEIVE] = "the receive buffer",
    [WHY_REMOTE_TARGET] = "the destination of the peer's request",
    [WHY_REMOTE_SOURCE] = "the source of the peer's READ",
};
static const char *const keys[] = {
    [MR_KEY_NONE] = "no key of this protection domain",
    [MR_KEY_REMOVED] = "the key of a memory region that was deregistered",
    [MR_KEY_REGION] = "the key of a memory region",
    [MR_KEY_WINDOW_1] = "the key of a type 1 window",
    [MR_KEY_WINDOW_2] = "the key of a type 2 window that is bound on this queue pair",
    [MR_KEY_OF_OTHER_QP] = "the key of a type 2 window that is bound on another queue pair",
    [MR_KEY_UNBOUND] = "the key of a memory window that is not bound",
    [MR_KEY_OLD] = "an old key of a memory window, which has another one since its latest bind",
};
static const char *const binds[] = {
    [WINDOW_NO_WINDOW] = "no window has this key now",
    [WINDOW_NEW_KEY] = "the new key differs from the old one in more than its low byte",
    [WINDOW_OTHER_DOMAIN] = "the window is of another protection domain than the queue pair",
    [WINDOW_BOUND] = "the window is of type 2, and bound already",
    [WINDOW_NO_LENGTH] = "the window is of type 2, and the length is 0",
    [WINDOW_RIGHTS] = "a window cannot have one of the rights",
    [WINDOW_NO_REGION] = "the region's key is unknown",
    [WINDOW_REGION_DOMAIN] = "the region is of another protection domain than the queue pair",
    [WINDOW_REGION_BIND] = "the region was registered without IBV_ACCESS_MW_BIND",
    [WINDOW_REGION_RANGE] = "the range is not inside the region",
    [WINDOW_REGION_WRITE] = "the window is to be written, and the region was registered without "
                            "IBV_ACCESS_LOCAL_WRITE",
    [WINDOW_BUSY] = "the region is being deregistered, or still copied to",
};
static const char *const queues[] = {[1] = "send", [2] = "receive", [3] = "send and receive"};
static const char *const others[] = {[WHY_OTHER_SOURCE] = "source address",
                                     [WHY_OTHER_TARGET] = "destination address",
                                     [WHY_OTHER_VLAN] = "VLAN",
                                     [WHY_OTHER_VERSION] = "RoCE version"};
static const char *const addresses[] = {
    [ADDRESS_NOT_GLOBAL] = "ah_attr.is_global is 0",
    [ADDRESS_PORT] = "ah_attr.port_num is not 1",
    [ADDRESS_NO_DGID] = "ah_attr.grh.dgid is zero",
    [ADDRESS_KINDS] = "ah_attr.grh.dgid and the source GID at sgid_index are of different kinds "
                      "(IPv4, IPv6)",
};

static const char *qp_type_word(uint64_t v)
{
    return qp_type_name((uint32_t)v);
}

static const char *state_word(uint64_t v)
{
    return qp_state_name((uint32_t)v);
}

static const char *packet_word(uint64_t v)
{
    return v < 256 && opcode_table[v].name ? opcode_table[v].name : "?";
}

static const char *drop_word(uint64_t v)
{
    return v < DROP_COUNT ? drop_name((enum drop)v) : "?";
}

static const char *call_word(uint64_t v)
{
    const char *name = inject_verb_function(v);

    return name ? name : "?";
}

static const char *errno_word(uint64_t v)
{
    const char *name = inject_error_name(v);

    return name ? name : "?";
}

static const char *cause_word(uint64_t v)
{
    const struct cause_text *t = v <= CAUSE_MAX ? cause_text((uint32_t)v) : NULL;

    return t ? t->name : "?";
}

/* Details that stand for words: a list, a function, or a mask. */
static const struct {
    const char *name;
    const char *const *list;
    unsigned n;
    const char *(*word)(uint64_t v);
    json_t *(*mask)(uint64_t v);
} form[] = {
#define LIST(name, list)                         \
    {                                            \
        name, list, ARRAY_SIZE(list), NULL, NULL \
    }
#define WORD(name, word)          \
    {                             \
        name, NULL, 0, word, NULL \
    }
#define MASK(name, mask)          \
    {                             \
        name, NULL, 0, NULL, mask \
    }
    LIST("side", sides),
    LIST("key_is", keys),
    LIST("failed", binds),
    LIST("queue", queues),
    LIST("differs", others),
    LIST("wrong", addresses),
    WORD("from", state_word),
    WORD("to", state_word),
    WORD("peer_state", state_word),
    WORD("opcode", show_operation),
    WORD("packet", packet_word),
    WORD("reason", drop_word),
    WORD("qp_type", qp_type_word),
    WORD("peer_cause", cause_word),
    WORD("call", call_word),
    WORD("errno", errno_word),
    MASK("right", rights),
    MASK("rights", rights),
    MASK("asked", rights),
    MASK("missing", attributes),
    MASK("unexpected", attributes),
    MASK("attribute", attributes),
#undef LIST
#undef WORD
#undef MASK
};

static json_t *detail_value(const char *name, uint64_t v)
{
    for (unsigned i = 0; i < ARRAY_SIZE(form); i++) {
        if (strcmp(form[i].name, name) != 0)
            continue;
        if (form[i].mask)
            return form[i].mask(v);
        if (form[i].word)
            return json_string(form[i].word(v));
        return json_string(v < form[i].n && form[i].list[v] ? form[i].list[v] : "?");
    }
    return show_number(v);
}

static json_t *gid_value(const uint64_t *words)
{
    union gid gid;

    memcpy(gid.raw, words, sizeof(gid.raw));
    return show_gid(&gid);
}

/* ---- */

/* The words of cause.def and the numbers of the record. */
json_t *show_details(const struct incident *i, const struct cause_text *t)
{
    const char *name = t ? t->details : "";
    json_t *o = json_object();

    for (unsigned k = 0; k < CAUSE_DETAILS && *name; k++) {
        size_t len = strcspn(name, " "), plain = strcspn(name, " ?");
        bool is_gid = plain > 4 && !memcmp(name + plain - 4, "_gid", 4) && k + 1 < CAUSE_DETAILS;
        char member[32];

        snprintf(member, sizeof(member), "%.*s", (int)plain, name);
        if (is_gid && (i->detail[k] || i->detail[k + 1] || plain == len))
            json_object_set_new(o, member, gid_value(&i->detail[k]));
        else if (!is_gid && (i->detail[k] || plain == len))
            json_object_set_new(o, member, detail_value(member, i->detail[k]));
        k += is_gid;
        name += len + (name[len] == ' ');
    }
    return o;
}
