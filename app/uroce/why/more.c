/* SPDX-License-Identifier: BSD-3-Clause */
/* The sentences of an answer that depend on details: what the first one leaves open, and advice for
 * what was found. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cause.h"
#include "mem_window.h"
#include "why.h"

/*
 * {name} stands for a detail, or a member of the incident; {flags:name} for rights as the flags of
 * ibv_reg_mr. {?name}, {!name} and {?name=text} stand for nothing: the sentence is for incidents
 * that have it, that do not have it, and where it is this. Of a cause all sentences that fit.
 */
struct sentence {
    uint8_t first, last; /* causes */
    const char *text;
};

#define OF(cause)           CAUSE_##cause, CAUSE_##cause
#define FROM(cause, cause2) CAUSE_##cause, CAUSE_##cause2

static const struct sentence more[] = {
    {FROM(remote_key_unknown, invalidate_refused),
     "{?dest_qpn}The responder is QP {qpn} of {comm}; the request is of QP {dest_qpn}."},
    /* keys */
    {FROM(local_key_unknown, local_key_range),
     "It is the {operation} with wr_id {wr_id} of QP {qpn}."},
    {OF(local_key_removed), "That was {ago_us} us before the work request was executed."},
    {OF(remote_key_removed), "That was {ago_us} us before the request was executed."},
    {OF(local_key_unknown), "The key {key} is {key_is}."},
    {OF(local_key_other_domain), "The key {key} is {key_is}."},
    {OF(remote_key_unknown), "The key {key} is {key_is}."},
    {OF(remote_key_other_domain), "The key {key} is {key_is}."},
    {FROM(local_key_unknown, local_key_other_domain),
     "{?region_key}The region that has the address {address} has the key {region_key}."},
    {FROM(remote_key_unknown, remote_key_other_domain),
     "{?region_key}The region that has the address {address} has the key {region_key}."},
    {FROM(local_key_unknown, local_key_other_domain),
     "{?no_region}No region of the queue pair's protection domain has the address {address}."},
    {FROM(remote_key_unknown, remote_key_other_domain),
     "{?no_region}No region of the responder's protection domain has the address {address}."},
    {OF(local_key_unknown), "{?swapped}With its bytes reversed it is the key of a region."},
    {OF(remote_key_unknown), "{?swapped}With its bytes reversed it is the key of a region."},
    {OF(local_key_no_right), "It needs {right}, and has {rights}."},
    {OF(remote_key_no_right), "It needs {right}, and has {rights}."},
    {OF(local_key_range), "The element has {length} bytes from {address}, the region "
                          "{region_length} from {region_address}."},
    {OF(remote_key_range), "The request is for {length} bytes from {address}, the region has "
                           "{region_length} from {region_address}."},
    {OF(local_key_range), "{?beyond}The last {beyond} bytes are beyond it."},
    {OF(remote_key_range), "{?beyond}The last {beyond} bytes are beyond it."},
    {OF(qp_no_right), "It needs {right}; its qp_access_flags are {rights}."},
    {OF(local_memory_gone), "It is {side} of QP {qpn}."},
    {OF(local_memory_gone), "{?address}The address is {address}, {length} bytes, of key {key}."},
    {OF(local_memory_gone), "{?process_ended}The process that has registered it has ended."},
    {OF(window_bind), "The reason: {failed}."},
    {OF(window_bind), "The region {region_key} has {rights}; asked for is {asked}."},
    {OF(local_invalidate), "{key} is {key_is}."},
    {OF(invalidate_refused), "{key} is {key_is}."},
    /* work requests */
    {OF(request_of_other_service), "It is {opcode} on {qp_type}."},
    {OF(request_reads_not_allowed), "The queue pair is QP {qpn}."},
    {OF(request_too_long), "It has {length} bytes, and {most} are the most."},
    {OF(datagram_too_long),
     "It has {length} bytes, and {most} are the most on this UD queue pair."},
    {OF(atomic_length), "They are {length}."},
    /* answers */
    {OF(no_answer), "{sent} packets went out, and retry_cnt is {retry_cnt}."},
    {FROM(no_answer, answers_stopped), "{?tx_refused}The port here has not taken {tx_refused} "
                                       "packets since it was opened, perhaps these: they may be "
                                       "longer than its interface's MTU, which may have changed."},
    {OF(no_answer), "The peer is not on this device: `uroce why` there may know more."},
    {OF(answers_stopped), "The peer is not on this device: `uroce why` there may know more."},
    {OF(peer_qp_unknown), "The number is {dest_qpn}."},
    {OF(peer_qp_gone), "Its number was {dest_qpn}, and it had answered before."},
    {OF(peer_qp_state), "It is QP {dest_qpn}, in {peer_state}."},
    {OF(peer_qp_state), "{?peer_cause=program_ended_it}Its own program (or connection manager) "
                        "put it there {peer_ago_us} us before, by ibv_modify_qp."},
    {OF(peer_qp_state), "{?peer_cause}{!peer_cause=program_ended_it}It failed itself {peer_ago_us} "
                        "us before: {peer_cause}."},
    {OF(peer_qp_type), "It is QP {dest_qpn}, of type {qp_type}."},
    {OF(peer_qp_elsewhere), "QP {qpn} has QP {dest_qpn} as its peer."},
    {OF(peer_qp_elsewhere), "{?connected_to}QP {dest_qpn} has QP {connected_to}."},
    {OF(requests_dropped), "The reason: {reason}."},
    {OF(answers_dropped), "The reason: {reason}."},
    {OF(packets_from_elsewhere), "{?to_qpn}QP {to_qpn} dropped them."},
    {OF(packets_from_elsewhere),
     "{?differs}The {differs} differs: expected {expected_gid}, arrived "
     "{got_gid}."},
    {OF(packets_dropped_on_purpose), "{?as_sent}{packets} packets to QP {to_qpn} were dropped as "
                                     "they were sent."},
    {OF(packets_dropped_on_purpose), "{!as_sent}{packets} packets to QP {to_qpn} were dropped as "
                                     "they arrived."},
    {OF(no_retries), "{?peer_qpn}The peer is on this device, too: QP {peer_qpn}, in {peer_state}."},
    {OF(no_retries), "{?peer_qpn}{!peer_received}It has received nothing."},
    {OF(no_retries), "{?peer_received}It has received {peer_received} packets."},
    {OF(packets_lost_here), "The peer is QP {peer_qpn}, in {peer_state}."},
    {OF(packets_lost_here), "{?peer_received=0}It has received nothing; QP {qpn} has sent {sent} "
                            "packets."},
    {OF(packets_lost_here), "{!peer_received=0}It has received {peer_received} packets; QP {qpn} "
                            "has sent {sent}, and received {received}."},
    {OF(receiver_not_ready), "It said so {rnr_naks} times; rnr_retry is {rnr_retry}."},
    /* requests */
    {OF(packet_length),
     "{!shorter}It has {length} bytes: longer than the path MTU here, {path_mtu}; "
     "the requester's path_mtu is larger."},
    {OF(packet_length),
     "{?shorter}It has {length} bytes, though more follow: shorter than the path "
     "MTU here, {path_mtu}; the requester's path_mtu is smaller."},
    {OF(reads_too_many), "max_dest_rd_atomic of QP {qpn} is {max_dest_rd_atomic}."},
    {OF(receive_too_small),
     "{!header}{!more_follow}It has {length} bytes, and there was room for {room}."},
    {OF(receive_too_small), "{?more_follow}It has more than {length} bytes, and there was room for "
                            "{room}."},
    {OF(receive_too_small),
     "{?header}It has {length} bytes with the {header} of the network header "
     "that UD puts before each message, and there was room for {room}."},
    {OF(qkey_mismatch), "It has {qkey}, and the queue pair {expected_qkey}."},
    {OF(receive_queue_empty), "{?never_posted}None was ever posted to QP {qpn}."},
    {OF(cq_overrun), "It has room for {size}."},
    {OF(cq_overrun), "It is the {queue} completion queue of QP {qpn}."},
    /* calls */
    {OF(connect_no_listener), "The port is {port} at {dgid}."},
    {FROM(no_neighbour, no_route), "The address is {dgid}."},
    {FROM(no_neighbour, no_route), "ibv_modify_qp of QP {qpn} failed."},
    {FROM(modify_source_gid, modify_address), "ibv_modify_qp of QP {qpn} failed."},
    {OF(modify_transition), "It was to go from {from} to {to}."},
    {OF(modify_missing), "Missing: {missing}."},
    {OF(modify_unexpected), "Unexpected: {unexpected}."},
    {OF(modify_value), "{attribute} is {value}, and may be {least} to {most}."},
    {OF(modify_source_gid), "The index is {sgid_index}."},
    {OF(modify_address), "The reason: {wrong}."},
    {OF(call_on_purpose), "It was {call}, and failed with {errno}."},
};

/* Advice for what was found, in place of the cause's; the first that fits. */
static const struct sentence advice[] = {
    {FROM(local_key_unknown, local_key_removed),
     "{?region_key}Set sge.lkey to {region_key}, or to the lkey of the region that is meant."},
    {FROM(remote_key_unknown, remote_key_unknown),
     "{?region_key}Set the rkey of the requester's work request to {region_key}, or to that of the "
     "region that is meant."},
    {OF(remote_key_no_right),
     "{?right=flush persistent}Use IBV_FLUSH_GLOBAL: memory of this device "
     "is not persistent, and no region can have that right."},
    {OF(remote_key_no_right), "Register it with {flags:right}, beside the flags that it has."},
    {OF(local_key_no_right), "Register it with {flags:right}: receives, READs and atomics write to "
                             "local memory."},
    {OF(qp_no_right), "Set {flags:right} in qp_access_flags of QP {qpn}, when it goes to INIT."},
    {OF(window_bind), "{?failed=the region was registered without IBV_ACCESS_MW_BIND}Register the "
                      "region with IBV_ACCESS_MW_BIND."},
    {OF(window_bind), "{?failed}Mend that, and bind the window again."},
    {OF(modify_address), "{?wrong=ah_attr.is_global is 0}Set ah_attr.is_global to 1, and fill "
                         "ah_attr.grh: RoCE has no other addresses."},
    {OF(reads_too_many), "{?max_dest_rd_atomic=0}Set max_dest_rd_atomic of QP {qpn} to 1 or more "
                         "when it goes to RTR: at least max_rd_atomic of the requester."},
    {OF(modify_unexpected),
     "{?unexpected=IBV_QP_TIMEOUT}Take the bit out of attr_mask: the timeout "
     "is set with the change to RTS."},
    {OF(modify_value),
     "{?attribute=IBV_QP_PATH_MTU}`ibv_devinfo -v` lists the port's active_mtu; on "
     "the path to the peer it may be less: `uroce show path_mtus`."},
    {OF(receive_too_small), "{?header}Post receives with {header} bytes more than the message."},
    {OF(peer_qp_state), "{?peer_cause=program_ended_it}Look where the peer's program sets "
                        "IBV_QPS_ERR, and send before that, or not at all."},
};

static json_t *find(const json_t *incident, const char *name, size_t len)
{
    char member[32];
    json_t *v;

    snprintf(member, sizeof(member), "%.*s", (int)len, name);
    v = json_object_get(json_object_get(incident, "details"), member);
    return v ? v : json_object_get(incident, member);
}

int why_value(char *out, size_t room, const char *name, size_t len, const json_t *v)
{
    bool key = len >= 3 && !memcmp(name + len - 3, "key", 3);
    bool address = len >= 7 && !memcmp(name + len - 7, "address", 7);

    if (json_is_string(v))
        return snprintf(out, room, "%s", json_string_value(v));
    return snprintf(out, room,
                    key       ? "0x%08llx"
                    : address ? "0x%llx"
                              : "%lld",
                    (long long)json_integer_value(v));
}

/* "remote read, mw bind" as IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND. */
static int put_flags(char *out, size_t room, const char *rights)
{
    size_t at = (size_t)snprintf(out, room, "IBV_ACCESS_");

    rights += strspn(rights, " "); /* a file's may begin so */
    for (; *rights && at + 20 < room; rights++) {
        if (*rights == ',')
            at += (size_t)snprintf(out + at, room - at, " | IBV_ACCESS_");
        else if (*rights != ' ' || rights[-1] != ',')
            out[at++] = *rights == ' ' ? '_' : (char)toupper((unsigned char)*rights);
        out[at] = '\0';
    }
    return (int)at;
}

/* Whether a condition holds: "?name", "!name", "?name=text", "!name=text". */
static bool holds(const json_t *incident, const char *text, size_t len)
{
    const char *equal = memchr(text, '=', len);
    size_t name = (equal ? (size_t)(equal - text) : len) - 1;
    const json_t *v = find(incident, text + 1, name);
    char value[256];
    bool is = v;

    if (v && equal) {
        why_value(value, sizeof(value), text + 1, name, v);
        is = strlen(value) == len - name - 2 && !memcmp(value, equal + 1, len - name - 2);
    }
    return is == (*text == '?');
}

/* What braces stand for. False: the incident does not have it, or the condition does not hold. */
static bool expand_one(const json_t *incident, const char *text, size_t len, char *out, size_t room,
                       size_t *at)
{
    bool flags = len > 6 && !memcmp(text, "flags:", 6);
    const json_t *v;
    int n;

    if (*text == '?' || *text == '!')
        return holds(incident, text, len);
    text += flags ? 6 : 0;
    len -= flags ? 6 : 0;
    v = find(incident, text, len);
    if (!v)
        return false;
    n = flags ? put_flags(out + *at, room - *at, json_string_value(v) ? json_string_value(v) : "")
              : why_value(out + *at, room - *at, text, len, v);
    *at += (size_t)n < room - *at ? (size_t)n : room - *at - 1;
    return true;
}

/* False: it does not fit. */
static bool expand(const json_t *incident, const char *text, char *out, size_t room)
{
    size_t at = 0;

    for (; *text && at + 1 < room; text++) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;

        if (!end) {
            out[at++] = *text;
            continue;
        }
        if (!expand_one(incident, text + 1, (size_t)(end - text - 1), out, room, &at))
            return false;
        text = end;
    }
    out[at] = '\0';
    return true;
}

static bool is_of(const struct sentence *s, const json_t *incident)
{
    json_int_t code = json_integer_value(json_object_get(incident, "code"));

    return s->first <= code && code <= s->last;
}

bool why_more(const json_t *incident, char *out, size_t room)
{
    size_t at = 0;
    char one[512];

    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        if (is_of(&more[i], incident) && expand(incident, more[i].text, one, sizeof(one)) &&
            at + strlen(one) + 1 < room)
            at += (size_t)snprintf(out + at, room - at, "%s%s", at ? " " : "", one);
    return at;
}

bool why_advice(const json_t *incident, char *out, size_t room)
{
    for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++)
        if (is_of(&advice[i], incident) && expand(incident, advice[i].text, out, room))
            return true;
    return false;
}
