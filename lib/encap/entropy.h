/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP source port of a RoCEv2 flow, always 0xC000 to 0xFFFF. The `kernel` rule is the one of
 * Linux 5.8 and rdma-core (ibv_flow_label_to_udp_sport); the `rfc` rule is the older one, from
 * QPNs or CM ports alone. QPNs are 24 bits. Pure; any thread.
 */
#ifndef UROCE_ENTROPY_H
#define UROCE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#define ENTROPY_PORT_MIN 0xC000
#define ENTROPY_PORTS    0x4000 /* from there to 0xFFFF */

/*
 * flow_label: 20 bits, of the address vector; 0 derives one from the two 24-bit QPNs.
 */
uint16_t entropy_port_kernel(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn);

/*
 * The 20-bit flow label that rdma_cm gives a connection's address vector (`kernel` rule), from the
 * active side's port and the port it connects to. It travels in the REQ, so both sides use it.
 */
uint32_t entropy_flow_label_cm(uint16_t src_port, uint16_t dest_port);

/* `rfc`: connected queue pairs. */
uint16_t entropy_port_rfc_rc(uint32_t src_qpn, uint32_t dest_qpn);

/* `rfc`: datagrams; to a multicast group (dest_qpn 0xFFFFFF) from the source alone. */
uint16_t entropy_port_rfc_ud(uint32_t src_qpn, uint32_t dest_qpn);

/* `rfc`: connections that rdma_cm makes. */
uint16_t entropy_port_rfc_cm(uint16_t src_port, uint16_t dest_port);

/*
 * `spray`: port number `index` of a flow's sequence. The sequence takes all ports before it comes
 * to one again, and another order for every pair of QPNs. A datagram's index is its number, so that
 * datagrams spread over all paths. A connected queue pair, whose packets must stay in order, keeps
 * its index until it gives a path up, and then takes the next.
 */
uint16_t entropy_port_spray(uint32_t src_qpn, uint32_t dest_qpn, uint32_t index);

/* ---- policies: a choice among the rules, as one value ---- */

enum entropy_rule {
    ENTROPY_KERNEL,
    ENTROPY_RFC,
    ENTROPY_FIXED,
    ENTROPY_SPRAY,
};

struct entropy_policy {
    enum entropy_rule rule;
    uint16_t port; /* of ENTROPY_FIXED */
};

/* What a policy may look at. */
struct entropy_flow {
    uint32_t src_qpn, dest_qpn;
    uint32_t flow_label; /* of the address vector; 0: none */
    uint16_t cm_src_port,
        cm_dest_port; /* of rdma_cm: active side's, listener's; both 0: not its flow */
    uint32_t index;   /* of `spray` */
};

/*
 * The flow's source port. Of `kernel` and `rfc` it is the same for both ends (src and dest
 * exchanged), of `spray` if both are at the same index.
 */
uint16_t entropy_port(const struct entropy_policy *policy, const struct entropy_flow *flow);

/*
 * Parses "kernel", "rfc", "spray" or "fixed:PORT", PORT decimal or 0x, from 49152 to 65535.
 * 0 or -EINVAL, with *policy untouched.
 */
int entropy_policy_parse(struct entropy_policy *policy, const char *text);

/* The text that entropy_policy_parse() takes, at most ENTROPY_TEXT_MAX bytes with its NUL. */
#define ENTROPY_TEXT_MAX 16
void entropy_policy_format(char out[ENTROPY_TEXT_MAX], const struct entropy_policy *policy);

#endif
