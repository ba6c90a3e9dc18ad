/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's side of the control protocol: a session is one application's context of a device.
 * Its messages create, change and destroy objects.
 *
 * The daemon trusts nothing that an application sends: it looks handles up among the session's own
 * objects, checks numbers, and closes file descriptors unless it keeps them.
 *
 * Threads: all functions belong to the control thread. Workers see an object from the moment when
 * worker_call gives it to them until worker_call removes it again.
 */
#ifndef UROCE_SESSION_H
#define UROCE_SESSION_H

#include <sys/socket.h>
#include <sys/types.h>

#include "ctl_msg.h"
#include "device.h"

struct session;

/**
 * Create a session for an application that connected.
 *
 * @param r  The devices.
 * @param peer  The application's process, from the kernel.
 * @return  The session; NULL: out of memory, or a limit (quota.h) is reached.
 */
struct session *session_create(struct rnic *r, const struct ucred *peer);
/**
 * Tell whether a request of the session runs on another thread: the session, and the descriptors of
 * the request, must stay until the function that rnic_on_retry() set is called.
 *
 * @param sn  The session.
 * @return  Whether it may not be closed yet.
 */
bool session_busy(const struct session *sn);
/**
 * Tell whether other sessions may use objects of this one (CTL_JOIN): it must stay until the
 * function that rnic_on_retry() set is called.
 *
 * @param sn  The session.
 * @return  Whether it may not be closed yet.
 */
bool session_is_joined(const struct session *sn);
/**
 * Tell how many descriptors may come with a request.
 *
 * @param type  Of the request.
 * @return  0 to CTL_MAX_FDS.
 */
unsigned session_takes_fds(unsigned type);
/**
 * Destroy a part of a session's objects, in about a tenth of a millisecond, or what is left of it.
 *
 * @param sn  The session, for which no request is dispatched any more.
 * @return  Whether there is more: call again. False: the session is gone.
 */
bool session_close_some(struct session *sn);
/**
 * Destroy a session and all its objects: queue pairs first, then the objects that they use.
 *
 * @param sn  The session.
 */
void session_close(struct session *sn);
/**
 * Report that the application's process has ended, though a child of it may hold the connection
 * open: the daemon reaches no memory of the process any more, and the session can open no device.
 *
 * @param sn  The session.
 * @return  Whether the session has a device open, with objects that should be destroyed.
 */
bool session_process_ended(struct session *sn);

/**
 * Report that the application's process has closed the connection, or has ended, but a child of it
 * may go on with the context: CTL_INHERIT of another session can take it. Its memory is not reached
 * any more.
 *
 * @param sn  The session.
 * @return  The daemon's end of its event socket, which hangs up when no process has the context any
 *     more; -1: the session is not one that a child can go on with.
 */
int session_leave(struct session *sn);

/** A request and its reply, with the descriptors that are sent with them. */
struct ctl_call {
    const struct ctl_msg *request;
    const int *in_fd; /**< the caller's; duplicated if kept */
    unsigned in_fds;
    bool again; /**< it has waited, and was dispatched before */
    struct ctl_msg reply;
    int out_fd[CTL_MAX_FDS]; /**< the caller's to close */
    unsigned out_fds;
};

/**
 * Handle one well-formed request and fill in the reply.
 *
 * @param sn  The session.
 * @param call  The request, and the reply.
 */
void session_dispatch(struct session *sn, struct ctl_call *call);
/**
 * Tell the program that a request without a reply has failed, if there is an event for that.
 *
 * @param sn  The session.
 * @param request  That was dispatched.
 * @param status  Of its reply, which is not sent.
 */
void session_post_failed(struct session *sn, const struct ctl_msg *request, int status);

/**
 * Write the state of all devices as JSON, as `uroce show` prints it. Root and the daemon's own user
 * see everything. Another user sees the clients of that user and their objects, without PSNs, keys
 * and addresses of memory; "others" has the numbers of all other clients and objects.
 *
 * @param r  The devices.
 * @param viewer  The user who gets the text.
 * @return  The text, for the caller to free; NULL: out of memory.
 */
char *rnic_show(struct rnic *r, uid_t viewer);

/**
 * Write what failed lately as JSON, as the daemon's answer to CTL_SHOW_INCIDENTS.
 *
 * @param r  The devices.
 * @param viewer  The user who gets the text.
 * @return  The text, for the caller to free; NULL: nothing has failed, or out of memory.
 */
char *rnic_incidents(struct rnic *r, uid_t viewer);

#endif
