/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The UDP source port of a RoCEv2 flow, always 0xC000 to 0xFFFF. The `kernel` rule is the one of
 * Linux 5.8 and rdma-core (ibv_flow_label_to_udp_sport); the `rfc` rule is the older one, from
 * QPNs or CM ports alone. QPNs are 24 bits. Pure; any thread.
 */
#ifndef UROCE_ENTROPY_H
#define UROCE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#define ENTROPY_PORT_MIN 0xC000
#define ENTROPY_PORTS    0x4000 /**< from there to 0xFFFF */

/**
 * Rule `kernel`: the port by the flow label.
 *
 * @param flow_label  20 bits, of the address vector; 0 derives one from the two QPNs.
 * @param src_qpn  The sender's QPN, 24 bits.
 * @param dest_qpn  The receiver's QPN, 24 bits.
 * @return  The port, 0xC000 to 0xFFFF.
 */
uint16_t entropy_port_kernel(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn);

/**
 * The flow label that rdma_cm gives a connection's address vector under rule `kernel`. It travels
 * in the REQ, so both sides use it.
 *
 * @param src_port  The active side's port.
 * @param dest_port  The port that it connects to.
 * @return  20 bits.
 */
uint32_t entropy_flow_label_cm(uint16_t src_port, uint16_t dest_port);

/**
 * Rule `rfc` for connected queue pairs.
 *
 * @param src_qpn  The sender's QPN, 24 bits.
 * @param dest_qpn  The receiver's QPN, 24 bits.
 * @return  The port; the same with both exchanged.
 */
uint16_t entropy_port_rfc_rc(uint32_t src_qpn, uint32_t dest_qpn);

/**
 * Rule `rfc` for datagrams; to a multicast group (dest_qpn 0xFFFFFF) by the source alone.
 *
 * @param src_qpn  The sender's QPN, 24 bits.
 * @param dest_qpn  The receiver's QPN, 24 bits.
 * @return  The port.
 */
uint16_t entropy_port_rfc_ud(uint32_t src_qpn, uint32_t dest_qpn);

/**
 * Rule `rfc` for connections that rdma_cm makes.
 *
 * @param src_port  The active side's port.
 * @param dest_port  The port that it connects to.
 * @return  The port.
 */
uint16_t entropy_port_rfc_cm(uint16_t src_port, uint16_t dest_port);

/**
 * Rule `spray`: a port of a flow's sequence. The sequence takes all ports before it comes to one
 * again, in another order for every pair of QPNs. A datagram's index is its number, so that
 * datagrams spread over all paths. A connected queue pair, whose packets must stay in order, keeps
 * its index until it gives a path up, and then takes the next one.
 *
 * @param src_qpn  The sender's QPN, 24 bits.
 * @param dest_qpn  The receiver's QPN, 24 bits.
 * @param index  The position in the sequence, modulo ENTROPY_PORTS.
 * @return  The port.
 */
uint16_t entropy_port_spray(uint32_t src_qpn, uint32_t dest_qpn, uint32_t index);

/**
 * The port that follows another in the pair's sequence: where a connection goes on whose first port
 * came from another rule.
 *
 * @param port  The port now, 0xC000 to 0xFFFF.
 * @param src_qpn  The sender's QPN, 24 bits.
 * @param dest_qpn  The receiver's QPN, 24 bits.
 * @return  The next port.
 */
uint16_t entropy_port_after(uint16_t port, uint32_t src_qpn, uint32_t dest_qpn);

/* ---- policies: a choice among the rules, as one value ---- */

/** The rules. */
enum entropy_rule {
    ENTROPY_KERNEL,
    ENTROPY_RFC,
    ENTROPY_FIXED,
    ENTROPY_SPRAY,
};

/** A choice among the rules, as one value. */
struct entropy_policy {
    enum entropy_rule rule;
    uint16_t port; /**< of ENTROPY_FIXED */
};

/** What a policy may look at. */
struct entropy_flow {
    uint32_t src_qpn, dest_qpn;
    uint32_t flow_label; /**< of the address vector; 0: none */
    uint16_t cm_src_port,
        cm_dest_port; /**< of rdma_cm: active side's, listener's; both 0: not its flow */
    uint32_t index;   /**< of `spray` */
};

/**
 * The source port of a flow. Under `kernel` and `rfc` it is the same for both ends (src and dest
 * exchanged), under `spray` when both are at the same index.
 *
 * @param policy  The policy.
 * @param flow  The flow, as its sender sees it.
 * @return  The port, 0xC000 to 0xFFFF.
 */
uint16_t entropy_port(const struct entropy_policy *policy, const struct entropy_flow *flow);

/**
 * Parse "kernel", "rfc", "spray" or "fixed:PORT", PORT decimal or 0x, from 49152 to 65535.
 *
 * @param policy  Set on success, else untouched.
 * @param text  The text, terminated.
 * @return  0; -EINVAL: the text is none of these.
 */
int entropy_policy_parse(struct entropy_policy *policy, const char *text);

/** The text that entropy_policy_parse() takes, at most ENTROPY_TEXT_MAX bytes with its NUL. */
#define ENTROPY_TEXT_MAX 16

/**
 * Write the text that entropy_policy_parse() reads.
 *
 * @param out  The text, terminated.
 * @param policy  The policy.
 */
void entropy_policy_format(char out[ENTROPY_TEXT_MAX], const struct entropy_policy *policy);

#endif
