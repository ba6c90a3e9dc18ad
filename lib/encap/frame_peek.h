/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be told of any Ethernet frame from its first bytes, RoCE or not. Pure; any thread. */
#ifndef UROCE_FRAME_PEEK_H
#define UROCE_FRAME_PEEK_H

#include <stdbool.h>
#include <stdint.h>

/* The priority of a frame that an application made, as qos_frame_priority. A frame too short for a
 * tag and a traffic class, or not of IP, has priority 0. */
uint8_t frame_priority(const uint8_t *frame, uint32_t len);

/* Marks a RoCEv2 frame "congestion experienced", as a switch does (RFC 3168, 5); the ICRC does not
 * cover the mark. False, and nothing is written: a frame too short for IPv4 or IPv6, or not of IP. */
bool frame_mark(uint8_t *frame, uint32_t len);

/* Whether the port's IP host processes the frame, of at least 14 bytes: ARP, ICMP and IGMP, ICMPv6
 * (behind a hop-by-hop header, too), in a VLAN or not. */
bool frame_is_for_ip_host(const uint8_t *frame, uint32_t len);

#endif
