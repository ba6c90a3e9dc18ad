/* SPDX-License-Identifier: BSD-3-Clause */
/* The second sentence of an answer: the details that the first one leaves open. */
#include <stdio.h>
#include <string.h>

#include "cause.h"
#include "why.h"

/* {name} stands for a detail, or a member of the incident. */
static const struct {
    enum cause cause;
    const char *text;
} more[] = {
    {CAUSE_local_key_removed, "That was {ago_us} us before."},
    {CAUSE_remote_key_removed, "That was {ago_us} us before."},
    {CAUSE_local_key_no_right, "It needs {right}."},
    {CAUSE_remote_key_no_right, "It needs {right}."},
    {CAUSE_qp_no_right, "It needs {right}."},
    {CAUSE_datagram_too_long, "It has {length} bytes, and {most} are the most."},
    {CAUSE_receive_too_small, "It has {length} bytes, and there was room for {room}."},
    {CAUSE_packet_length, "It has {length} bytes; the path MTU here is {path_mtu}."},
    {CAUSE_reads_too_many, "It accepts {max_dest_rd_atomic}."},
    {CAUSE_receiver_not_ready, "It said so {rnr_naks} times; rnr_retry is {rnr_retry}."},
    {CAUSE_no_answer, "{sent} packets went out, and retry_cnt is {retry_cnt}."},
    {CAUSE_peer_qp_unknown, "The number is {dest_qpn}."},
    {CAUSE_peer_qp_gone, "Its number was {dest_qpn}."},
    {CAUSE_peer_qp_state, "It is in {peer_state}."},
    {CAUSE_requests_dropped, "The reason: {reason}."},
    {CAUSE_answers_dropped, "The reason: {reason}."},
    {CAUSE_cq_overrun, "It has room for {size}."},
    {CAUSE_connect_no_listener, "The port is {port} at {dgid}."},
    {CAUSE_no_neighbour, "The address is {dgid}."},
    {CAUSE_no_route, "The address is {dgid}."},
    {CAUSE_modify_transition, "It was to go from {from} to {to}."},
    {CAUSE_modify_missing, "Missing: {missing}."},
    {CAUSE_modify_unexpected, "Unexpected: {unexpected}."},
    {CAUSE_modify_value, "{attribute} is {value}, and may be {least} to {most}."},
    {CAUSE_modify_source_gid, "The index is {sgid_index}."},
};

static json_t *find(const json_t *incident, const char *name, size_t len)
{
    char member[32];
    json_t *v;

    snprintf(member, sizeof(member), "%.*s", (int)len, name);
    v = json_object_get(json_object_get(incident, "details"), member);
    return v ? v : json_object_get(incident, member);
}

static size_t put_value(char *out, size_t room, const json_t *v)
{
    int n = json_is_string(v) ? snprintf(out, room, "%s", json_string_value(v))
                              : snprintf(out, room, "%lld", (long long)json_integer_value(v));

    return (size_t)n < room ? (size_t)n : room - 1;
}

/* False: something that the text names is not there. */
static bool expand(const json_t *incident, const char *text, char *out, size_t room)
{
    size_t at = 0;

    for (; *text && at + 1 < room; text++) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        const json_t *v;

        if (!end) {
            out[at++] = *text;
            continue;
        }
        v = find(incident, text + 1, (size_t)(end - text - 1));
        if (!v)
            return false;
        at += put_value(out + at, room - at, v);
        text = end;
    }
    out[at] = '\0';
    return true;
}

bool why_more(const json_t *incident, char *out, size_t room)
{
    json_int_t code = json_integer_value(json_object_get(incident, "code"));

    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        if ((json_int_t)more[i].cause == code)
            return expand(incident, more[i].text, out, room);
    return false;
}
