/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's network interface below a port: its MTU and link, and what the port asks of it.
 * Descriptors that these functions return are the caller's, who closes them. Control thread, unless
 * a function says more.
 */
#ifndef UROCE_PKTIO_BELOW_H
#define UROCE_PKTIO_BELOW_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

/* An SIOC... request about the interface, by a socket of any kind: 0, or -1 and errno. Any thread.
 */
int below_ask(int fd, const char *netdev, unsigned long request, struct ifreq *ifr);

/* The name that an interface has now, perhaps another one than at the start. False: it is gone, and
 * one that has its name is another one. Any thread. */
bool below_name(int fd, uint32_t ifindex, char name[IF_NAMESIZE]);

/* Whether the interface is up and has a carrier. Any thread. */
bool below_is_up(int fd, const char *netdev);

/*
 * Reads the interface's MTU, and sets it before to `wanted` unless that is 0. *before is the one
 * that this call has replaced, or 0. 0, or a negative errno.
 */
int below_mtu(int fd, const char *netdev, uint32_t wanted, uint32_t *mtu, uint32_t *before);
/* Opening has failed: the interface gets the MTU back that below_mtu has replaced. before: as that
 * has set it. */
void below_mtu_back(int fd, const char *netdev, uint32_t before);

/* A socket that makes the interface accept frames to every group while it is open. -1: refused. */
int below_open_groups(uint32_t ifindex);

/* Sockets that keep the kernel from answering the port's frames, of IPv4 and IPv6; -1: another
 * owner does so. joined: the port takes frames that are several packets, so that the kernel may put
 * packets together and need not cut what arrives whole (UDP_GRO). */
void below_open_guard(int fd[2], const char *netdev, bool joined);

/* Whether packet sockets of this kernel pass frames on that are several packets of UDP (Linux 6.2).
 */
bool below_has_long_frames(void);

/* A socket that becomes readable when the link of any interface changes; -1: refused. */
int below_open_link(void);
/* Empties it. */
void below_ack_link(int fd);

/* Closes what one of these functions has returned, or nothing: -1. */
void below_close(int fd);

#endif
