/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP source port of a RoCEv2 flow, always 0xC000 to 0xFFFF. The `kernel` rule is the one of
 * Linux 5.8 and rdma-core (ibv_flow_label_to_udp_sport); the `rfc` rule is the older one, from
 * QPNs or CM ports alone. QPNs are 24 bits. Pure; any thread.
 */
#ifndef UROCE_ENTROPY_H
#define UROCE_ENTROPY_H

#include <stdint.h>

#define ENTROPY_PORT_MIN 0xC000

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

#endif
