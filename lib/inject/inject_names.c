/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of what a rule can name: see inject_names.h. */
#include "inject_names.h"

#include <errno.h>
#include <string.h>

#include "pkt.h"

/* Errors that programs know how to take. None of those with which the daemon asks a library to wait
 * or to ask again. */
static const struct inject_name errors[] = {
    {"EACCES", EACCES}, {"EADDRINUSE", EADDRINUSE},
    {"EBUSY", EBUSY},   {"ECONNREFUSED", ECONNREFUSED},
    {"EINVAL", EINVAL}, {"EIO", EIO},
    {"EMFILE", EMFILE}, {"ENETUNREACH", ENETUNREACH},
    {"ENODEV", ENODEV}, {"ENOMEM", ENOMEM},
    {"ENOSPC", ENOSPC}, {"EOPNOTSUPP", EOPNOTSUPP},
    {"EPERM", EPERM},   {"ETIMEDOUT", ETIMEDOUT},
    {NULL, 0},
};

/* RNR: with the timer's code 14, 1.28 ms. */
static const struct inject_name naks[] = {
    {"rnr", AETH_RNR | 14},
    {"sequence", AETH_NAK | NAK_PSN_SEQUENCE},
    {"invalid_request", AETH_NAK | NAK_INVALID_REQUEST},
    {"remote_access", AETH_NAK | NAK_REMOTE_ACCESS},
    {"remote_operational", AETH_NAK | NAK_REMOTE_OPERATIONAL},
    {NULL, 0},
};

static const struct inject_name verbs[] = {
#define X(name) {#name, INJECT_VERB_##name},
#include "inject_verbs.def"
#undef X
    {NULL, 0},
};

/* Values of enum ibv_event_type: those that have a port or nothing for their element. */
static const struct inject_name events[] = {
    {"device_fatal", 8},       {"port_active", 9},  {"port_err", 10},
    {"lid_change", 11},        {"pkey_change", 12}, {"sm_change", 13},
    {"client_reregister", 17}, {"gid_change", 18},  {NULL, 0},
};

/* Values of enum ibv_wc_status: errors that a work request of a send queue can have. */
static const struct inject_name statuses[] = {
    {"loc_len_err", 1},        {"loc_qp_op_err", 2},  {"loc_prot_err", 4},
    {"mw_bind_err", 6},        {"bad_resp_err", 7},   {"rem_inv_req_err", 9},
    {"rem_access_err", 10},    {"rem_op_err", 11},    {"retry_exc_err", 12},
    {"rnr_retry_exc_err", 13}, {"rem_abort_err", 16}, {"fatal_err", 19},
    {"resp_timeout_err", 20},  {"general_err", 21},   {NULL, 0},
};

/* Values of enum ibv_wr_opcode. */
static const struct inject_name operations[] = {
    {"write", 0},   {"write_imm", 1},     {"send", 2},      {"send_imm", 3}, {"read", 4},
    {"cmp_swp", 5}, {"fetch_add", 6},     {"local_inv", 7}, {"bind_mw", 8},  {"send_inv", 9},
    {"flush", 14},  {"atomic_write", 15}, {NULL, 0},
};

const struct inject_name *const inject_names[INJECT_NAME_KINDS] = {
    [INJECT_ERRORS] = errors, [INJECT_NAKS] = naks,         [INJECT_VERBS] = verbs,
    [INJECT_EVENTS] = events, [INJECT_STATUSES] = statuses, [INJECT_OPERATIONS] = operations,
};

const char *inject_verb_function(uint64_t verb)
{
    static const struct {
        const char *ibv, *rdma;
    } functions[] = {
#define X(name) {"ibv_" #name, "rdma_" #name},
#include "inject_verbs.def"
#undef X
    };

    if (verb >= ARRAY_SIZE(functions))
        return NULL;
    return inject_verb_has_device((enum inject_verb)verb) ? functions[verb].ibv
                                                          : functions[verb].rdma;
}

const char *inject_error_name(uint64_t error)
{
    for (const struct inject_name *n = errors; n->name; n++)
        if ((uint64_t)n->value == error)
            return n->name;
    return NULL;
}

bool inject_find_name(enum inject_name_kind kind, const char *text, int *value)
{
    for (const struct inject_name *n = inject_names[kind]; n->name; n++) {
        if (strcmp(n->name, text))
            continue;
        *value = n->value;
        return true;
    }
    return false;
}
