/* SPDX-License-Identifier: BSD-3-Clause */
/* Unusual events of an engine, in JSON. */
#include "show/show.h"

#include "control/session_state.h"
#include "device_host.h"
#include "drop.h"
#include "objects/qp_object.h"
#include "trace.h"

/* Whether a queue pair that the viewer may see has this number. The trace does not know the users
 * of former queue pairs, nor of packets to none. */
bool show_sees_qp(const struct viewer *v, const struct device *d, uint32_t qpn)
{
    const struct qp *qp = qp_table_lookup(d->qps, qpn);

    return qp &&
           viewer_sees(v,
                       container_of((struct dp_qp *)qp_owner(qp), struct qp_object, dp)->o.session);
}

/* Volume 1, tables 44 and 46. */
static const char *nak_name(uint32_t syndrome)
{
    static const char *const name[] = {
        [0] = "PSN sequence error",       [1] = "invalid request",    [2] = "remote access error",
        [3] = "remote operational error", [4] = "invalid RD request",
    };

    if (syndrome >> 5 == 1)
        return "receiver not ready";
    return syndrome >> 5 == 3 && (syndrome & 31) < ARRAY_SIZE(name) ? name[syndrome & 31] : "?";
}

/* One line about a record; with PSNs only for those who see everything, as in show_qp.c. */
static json_t *event_text(const struct viewer *v, const struct trace_record *r)
{
    switch (r->event) {
    case TRACE_DROP:
        return json_string(r->a < DROP_COUNT ? drop_name((enum drop)r->a) : "?");
    case TRACE_TX_DROP:
        return json_string(r->a < DROP_COUNT ? drop_name((enum drop)r->a) : "?");
    case TRACE_STATE:
        return json_sprintf("%s to %s", qp_state_name(r->a), qp_state_name(r->b));
    case TRACE_FAULT:
        return v->all ? json_sprintf("%s, at PSN %u", fault_name(r->a), r->b)
                      : json_string(fault_name(r->a));
    case TRACE_NAK:
        return v->all
                   ? json_sprintf("AETH syndrome 0x%02x (%s), PSN %u", r->a, nak_name(r->a), r->b)
                   : json_sprintf("AETH syndrome 0x%02x (%s)", r->a, nak_name(r->a));
    case TRACE_TIMEOUT:
        return v->all ? json_sprintf("from PSN %u, %u retries left", r->a, r->b)
                      : json_sprintf("%u retries left", r->b);
    case TRACE_REPATH:
        return json_sprintf("UDP source port %u to %u", r->a, r->b);
    case TRACE_QP_MIGRATED_OUT:
        return json_sprintf("to worker %u", r->a);
    case TRACE_QP_MISPLACED:
        return json_sprintf("%u in a row at worker %u", r->b, r->a);
    case TRACE_CQ_OVERRUN:
        return json_sprintf("completion queue %u", r->a);
    default:
        return json_string("");
    }
}

json_t *show_record(const struct viewer *v, const struct device *d, unsigned part,
                    const struct trace_record *r)
{
    static const char *const name[TRACE_EVENTS] = {[TRACE_DROP] = "drop",
                                                   [TRACE_STATE] = "state",
                                                   [TRACE_FAULT] = "fault",
                                                   [TRACE_NAK] = "refused by peer",
                                                   [TRACE_TIMEOUT] = "timeout",
                                                   [TRACE_REPATH] = "new path",
                                                   [TRACE_QP_MIGRATED_OUT] = "left worker",
                                                   [TRACE_QP_MIGRATED_IN] = "came to worker",
                                                   [TRACE_QP_MISPLACED] = "misplaced packets",
                                                   [TRACE_CQ_OVERRUN] = "completion lost",
                                                   [TRACE_TX_DROP] = "dropped by its sender"};

    return json_pack(
        "{s:I, s:s, s:i, s:I, s:s, s:o}", "time_ns", (json_int_t)r->time, "device", d->name,
        "worker", (int)worker_index(d->workers[part]), "qpn", (json_int_t)r->qpn, "event",
        r->event && r->event < TRACE_EVENTS ? name[r->event] : "?", "what", event_text(v, r));
}
