/* SPDX-License-Identifier: BSD-3-Clause */
/* See counters.h. Names and units are those of the Linux kernel and its mlx5 driver. */
#include "counters.h"

#include <string.h>

#define PORT "counters"
#define HW   "hw_counters"

const struct sys_counter sys_counters[] = {
    {PORT, "port_xmit_data", 4, {"c.tx_bytes"}},
    {PORT, "port_rcv_data", 4, {"c.rx_bytes"}},
    {PORT, "port_xmit_packets", 1, {"c.tx_packets"}},
    {PORT, "port_rcv_packets", 1, {"c.rx_packets"}},
    {PORT,
     "port_rcv_errors",
     1,
     {"d.bad_ip_header", "d.udp_length", "d.truncated", "d.unknown_opcode", "d.transport_version",
      "d.pad_length", "d.bad_icrc", "c.rx_bad_checksum", "c.rx_unusable"}},
    {PORT, "port_rcv_constraint_errors", 1, {"d.pkey_mismatch"}},
    {PORT, "port_rcv_remote_physical_errors", 1, {NULL}},
    {PORT, "port_rcv_switch_relay_errors", 1, {NULL}},
    {PORT, "port_xmit_constraint_errors", 1, {NULL}},
    {PORT, "port_xmit_discards", 1, {"c.tx_refused"}},
    {PORT, "port_xmit_wait", 1, {NULL}},
    {PORT, "symbol_error", 1, {NULL}},
    {PORT, "local_link_integrity_errors", 1, {NULL}},
    {PORT, "excessive_buffer_overrun_errors", 1, {"c.rx_overflow", "d.forward_full"}},
    {PORT, "VL15_dropped", 1, {NULL}},

    {HW, "out_of_buffer", 1, {"t.rnr_nak_sent"}},
    {HW, "out_of_sequence", 1, {"t.out_of_sequence"}},
    {HW, "duplicate_request", 1, {"t.duplicate_request"}},
    {HW, "rnr_nak_retry_err", 1, {"t.rnr_nak_rcvd"}},
    {HW, "packet_seq_err", 1, {"t.seq_nak_rcvd"}},
    {HW, "implied_nak_seq_err", 1, {"t.implied_nak_seq_err"}},
    {HW, "local_ack_timeout_err", 1, {"t.timeouts"}},
    {HW, "req_transport_retries_exceeded", 1, {"t.retry_exceeded"}},
    {HW, "req_rnr_retries_exceeded", 1, {"t.rnr_retry_exceeded"}},
    {HW, "resp_remote_access_errors", 1, {"t.remote_access_err"}},
    {HW, "rx_icrc_encapsulated", 1, {"d.bad_icrc"}},
    {HW, "np_ecn_marked_roce_packets", 1, {"t.np_ecn_marked_roce_packets"}},
    {HW, "np_cnp_sent", 1, {"t.np_cnp_sent"}},
    {HW, "rp_cnp_handled", 1, {"t.rp_cnp_handled"}},
    {HW, "rp_cnp_ignored", 1, {"d.cnp_unsupported"}},
    {HW, "roce_adp_retrans", 1, {NULL}},
    {HW, "roce_adp_retrans_to", 1, {NULL}},
    {HW, "roce_slow_restart", 1, {NULL}},
    {HW, "roce_slow_restart_cnps", 1, {NULL}},
    {HW, "roce_slow_restart_trans", 1, {NULL}},
    {NULL, NULL, 0, {NULL}},
};

uint64_t sys_counter_value(const struct sys_counter *c, const struct face_device *d)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SYS_COUNTER_SOURCES && c->source[i] != NULL; i++) {
        const char *source = c->source[i];
        const json_t *from = source[0] == 'c'   ? d->counters
                             : source[0] == 'd' ? d->drops
                                                : d->totals;

        sum += (uint64_t)json_integer_value(json_object_get(from, source + strlen("c.")));
    }
    return sum / c->unit;
}
