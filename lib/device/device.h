/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's devices: their ports and workers, and the addresses and routes of a port. What
 * applications create on them is in session.h.
 *
 * Threads: all functions belong to the control thread.
 */
#ifndef UROCE_DEVICE_H
#define UROCE_DEVICE_H

#include <sys/socket.h>
#include <sys/types.h>

#include "ctl_msg.h"
#include "entropy.h"
#include "event_loop.h"
#include "gid.h"
#include "inject.h"
#include "mem_heat.h"
#include "net_host.h"
#include "pktio.h"
#include "qos.h"
#include "quota.h"
#include "worker.h"

/* ---- access to application memory: filled in by the host from drivers/mem ---- */

/**
 * Access to application memory, which the host fills in from drivers/mem. Applications can hold up
 * space_open, space_reach, map and dispose, so these are called from any thread, though for one
 * space not by two at a time; the others from the control thread.
 */
struct mem_provider {
    /** The memory of the process peer (from the kernel, not from a message), and in *copy how to
     * copy to and from it. NULL and *err, a negative errno. */
    void *(*space_open)(const struct ucred *peer, const struct mem_backend **copy, int *err);
    /** Whether the kernel allows copies at all: 0, -EPERM or -ESRCH. NULL: always 0. */
    int (*space_reach)(void *space);
    /** The process has ended: every transfer fails from now on. */
    void (*space_gone)(void *space);
    void (*space_close)(void *space);
    /** Maps the n pieces of the memfd that back mr and sets mr->direct; mr->space is as above.
     * Returns what unmap wants, or NULL and *err. */
    void *(*map)(struct mem_region *mr, int fd, const struct mem_piece *piece, unsigned n,
                 int *err);
    void (*unmap)(void *mapping, struct mem_region *mr);
    /** Frees the mapping, which takes long when it is large. NULL: unmap does that. */
    void (*dispose)(void *mapping);
    /** From now on, for at most ns, workers that copy wait. Called while no worker runs. NULL,
     * and thaw too: workers never wait. */
    void (*freeze)(void *space, uint64_t ns);
    /** Ends the freeze, and returns the ns that workers have waited. */
    uint64_t (*thaw)(void *space);
    /** The counts of copies in a space. NULL: nothing is counted. */
    struct mem_heat *(*heat)(void *space);
};

/* ---- the daemon's devices ---- */

/** The daemon's devices and workers. */
struct rnic;

/** What a user's programs together get of a worker's time, compared with another user's. */
struct user_weight {
    uint32_t uid;
    uint32_t weight; /**< 1 to SHARE_WEIGHT_MAX */
};

/** What it is created with. */
struct rnic_config {
    unsigned workers; /**< 1 to WORKERS_MAX */
    const int *cpus;  /**< one for each worker, which then runs there alone; or NULL */
    bool always_poll; /**< workers never yield their CPUs and never sleep */
    const struct mem_provider *mem;
    struct event_loop *loop; /**< NULL: late events are not delivered (fuzzing) */
    const char *version;
    const int
        *uffd_device; /**< /dev/userfaultfd, for applications that ask for it; NULL: for none */
    /** Two random numbers that order the numbers of queue pairs, other objects and keys, for tests
     * and measurements that must repeat; zeros: numbers count up. NULL: the kernel's, which are
     * secret. */
    const uint64_t *secret;
    bool errands; /**< what an application can hold up runs on other threads; needs loop */
    ns_t (*clock)(
        void); /**< NULL: worker_time; hosts that call worker_poll with another time set it */
    /** Users whose programs get more of the workers' time than others (share.h); any other has
     * weight
     * 1. Kept until the end. */
    const struct user_weight *weight;
    unsigned weights;
    /** Called on the control thread when a call that waits for an application, on a thread of its
     * own, has lasted a second: for a log. is_close: of a descriptor that the application passed,
     * else a look at its process or memory. pid: -1, or the application. May be NULL. */
    void (*on_late)(void *ctx, int pid, unsigned uid, bool is_close);
    void *late_ctx;
    bool latency; /**< work requests are timed always; else while some connection asks for it */
    struct quota_limits quota; /**< zeroed: the tables' defaults, and no limit of the daemon's */
};

/** An address of a port. */
struct port_address {
    union gid gid;
    uint8_t prefix;   /**< bits, as configured */
    uint16_t vlan;    /**< id, or VLAN_NONE */
    bool answered;    /**< the kernel has it too and answers for it: the port is silent */
    uint32_t ifindex; /**< of the kernel interface that has it; 0: the port's */
};

/** A neighbour that is not asked for. */
struct port_neighbour {
    union gid addr;
    uint8_t mac[6];
};

/** What a port is added with. */
struct port_config {
    struct pktio *io; /**< rnic_add_port takes ownership, also when it fails */
    const struct port_address *address;
    unsigned addresses;
    const struct port_neighbour *neighbour;
    unsigned neighbours;
    const struct net_route *route;
    unsigned routes;
    /**
     * Bits 1 << enum gid_type; 0: RoCEv2 only. The GID table has first the RoCEv2 entries: routable
     * IPv4 addresses, routable IPv6, link-local, each in the order of `address`; then the RoCEv1
     * entries in the same order.
     */
    unsigned gid_types;
    const struct qos_map *qos;           /**< NULL: the default */
    struct qos_classes classes;          /**< zeroed: priorities do not matter */
    struct entropy_policy entropy;       /**< of UDP source ports; zeroed: the kernel's */
    struct congestion_config congestion; /**< zeroed: marks are counted only */
    uint64_t max_rate; /**< bits per second that the port sends at most; 0: as fast as it can */
    /** What was asked for: pause frames that the port should heed, and does not by itself
     * (pktio_info.pause), are heeded by the engines. */
    enum pktio_pause flow_control;
    unsigned repath;   /**< timeouts after which a connection changes its port; 0: never */
    uint8_t trim_dscp; /**< the code point of frames that switches have trimmed; 0: none */
    bool selective; /**< ask peers whether they take and send maps of kept packets, and do if asked
                     */
    bool detect_duplicates;  /**< of its addresses */
    const int *exception_fd; /**< the kernel's tap device for frames that are not RoCE;
                                rnic_add_port takes ownership, also when it fails; NULL: none */
    char netdev[16]; /**< the kernel interface with the addresses, when the port does not know it */
    uint32_t ifindex;
};

/**
 * Create workers, without devices and threads.
 *
 * @param config  Copied; what it points to must outlive the result.
 * @param err  Set when the result is NULL.
 * @return  The devices; NULL and -ENOMEM or another negative errno.
 */
struct rnic *rnic_create(const struct rnic_config *config, int *err);
/**
 * Destroy all devices and workers; all sessions are closed and the workers ended.
 *
 * @param r  The devices.
 */
void rnic_destroy(struct rnic *r);

/**
 * Add a device named uroceN with one port, whose queues the workers serve from the next worker in
 * turn on. Before the workers run.
 *
 * @param r  The devices.
 * @param config  Copied. The port and the exception path's descriptor are taken over, also on
 *     failure.
 * @return  0; -EINVAL: an address occurs twice, or has no valid VLAN id; -ENOSPC: too many
 *     addresses, neighbours, or ports of a worker; -ENOMEM.
 */
int rnic_add_port(struct rnic *r, const struct port_config *config);

/**
 * Add an address while the workers run. Applications get IBV_EVENT_GID_CHANGE.
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port().
 * @param a  The address, copied.
 * @return  0; -EEXIST: the port has it; -ENOSPC; -EINVAL.
 */
int rnic_add_address(struct rnic *r, unsigned device, const struct port_address *a);

/**
 * Remove an address while the workers run. Applications get IBV_EVENT_GID_CHANGE.
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port().
 * @param gid  The address.
 * @param vlan  Its VLAN id, or VLAN_NONE.
 * @return  0; -ENOENT: the port does not have it.
 */
int rnic_remove_address(struct rnic *r, unsigned device, const union gid *gid, uint16_t vlan);
/**
 * Set whether the kernel answers for an untagged address (port_address.answered).
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port().
 * @param gid  The address.
 * @param answered  Whether it does.
 * @return  0; -ENOENT: the port does not have the address.
 */
int rnic_answered(struct rnic *r, unsigned device, const union gid *gid, bool answered);

/**
 * Set the kernel interface that has an untagged address (port_address.ifindex); the control thread.
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port().
 * @param gid  The address.
 * @param ifindex  The interface, or 0: the port's.
 * @return  0; -ENOENT: the port does not have the address.
 */
int rnic_address_interface(struct rnic *r, unsigned device, const union gid *gid, uint32_t ifindex);

/**
 * Add a route while the workers run.
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port().
 * @param route  The route, copied.
 * @return  0; -EEXIST; -ENOSPC; -EINVAL.
 */
int rnic_add_route(struct rnic *r, unsigned device, const struct net_route *route);

/**
 * Remove a route while the workers run.
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port().
 * @param route  The route.
 * @return  0; -ENOENT: the port does not have it.
 */
int rnic_remove_route(struct rnic *r, unsigned device, const struct net_route *route);

/**
 * Add a rule that makes packets go wrong on purpose.
 *
 * @param r  The devices.
 * @param device  Index in the order of rnic_add_port(): the rule is for this device; -1: for the
 * one that its text names, or for all that there are now.
 * @param text  The rule (doc/fault.md).
 * @param error  Set on failure to a line for people.
 * @return  The rule's number, from 1 on; -EINVAL; -ENOSPC; -ENOMEM.
 */
int rnic_add_fault(struct rnic *r, int device, const char *text, char error[INJECT_ERROR_MAX]);

/**
 * Set what is called when requests may be dispatched again. A request whose peer must first be
 * resolved on the network gets the status -EINPROGRESS, which is not for the application: the
 * caller dispatches it again after retry was called. Without a retry such requests fail with
 * -EHOSTUNREACH.
 *
 * @param r  The devices.
 * @param retry  The function, or NULL.
 * @param ctx  Its argument.
 */
void rnic_on_retry(struct rnic *r, void (*retry)(void *ctx), void *ctx);

/**
 * Report that the daemon ends: sessions that are closed from now on leave the contents of their
 * queues to the applications, which flush their work requests.
 *
 * @param r  The devices.
 */
void rnic_end(struct rnic *r);

/**
 * How many workers there are.
 *
 * @param r  The devices.
 * @return  1 to WORKERS_MAX.
 */
unsigned rnic_workers(const struct rnic *r);

/**
 * A worker, whose thread the host starts (worker_run).
 *
 * @param r  The devices.
 * @param index  Less than rnic_workers().
 * @return  The worker.
 */
struct worker *rnic_worker(struct rnic *r, unsigned index);
/**
 * The group of all workers, for the watch. Control thread.
 *
 * @param r  The devices.
 * @return  The group, which lives as long as the devices.
 */
struct worker_group *rnic_group(struct rnic *r);

#endif
