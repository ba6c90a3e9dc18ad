/* SPDX-License-Identifier: BSD-3-Clause */
/* Tap devices: see netdev.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netdev.h"

_Static_assert(NETDEV_NAME_MAX == IFNAMSIZ, "names of interfaces");

/* The MAC is set before the device is up, so that the kernel derives its link-local address from
 * it.
 */
static int configure_tap(const struct ifreq *tap, const uint8_t mac[6], uint32_t mtu)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq r = *tap;
    int err = 0;

    if (fd < 0)
        return -errno;
    r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(r.ifr_hwaddr.sa_data, mac, 6);
    if (ioctl(fd, SIOCSIFHWADDR, &r))
        err = -errno;
    r = *tap;
    r.ifr_mtu = (int)mtu;
    if (!err && ioctl(fd, SIOCSIFMTU, &r))
        err = -errno;
    r = *tap;
    if (!err && ioctl(fd, SIOCGIFFLAGS, &r))
        err = -errno;
    r.ifr_flags |= IFF_UP;
    if (!err && ioctl(fd, SIOCSIFFLAGS, &r))
        err = -errno;
    close(fd);
    return err;
}

int netdev_tap_open(char name[NETDEV_NAME_MAX], const uint8_t mac[6], uint32_t mtu)
{
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    int err = 0;

    if (fd < 0)
        return errno == EACCES ? -EPERM : -errno;
    snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name[0] ? name : "roce%d");
    if (ioctl(fd, TUNSETIFF, &r))
        err = -errno;
    if (!err)
        err = configure_tap(&r, mac, mtu);
    if (err) {
        close(fd);
        return err;
    }
    memcpy(name, r.ifr_name, NETDEV_NAME_MAX);
    return fd;
}
