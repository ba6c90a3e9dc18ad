/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP source port of a RoCEv2 flow, always 0xC000 to 0xFFFF. The `kernel` rule is the one of
 * Linux 5.8 and rdma-core (ibv_flow_label_to_udp_sport). Pure; any thread.
 */
#ifndef UROCE_ENTROPY_H
#define UROCE_ENTROPY_H

#include <stdint.h>

#define ENTROPY_PORT_MIN 0xC000

/*
 * flow_label: 20 bits, of the address vector; 0 derives one from the two 24-bit QPNs.
 */
uint16_t entropy_port_kernel(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn);

#endif
