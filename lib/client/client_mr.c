/* SPDX-License-Identifier: BSD-3-Clause */
#include "client_mr.h"

#include <sys/prctl.h>
#include <unistd.h>

/* Where Yama restricts ptrace, process_vm_readv needs our consent. Not all kernels have Yama, so a
 * failure means nothing; a missing right shows as a failing registration. */
static void allow_daemon(struct client *c)
{
    if (!atomic_exchange_explicit(&c->tracer_set, true, memory_order_relaxed))
        prctl(PR_SET_PTRACER, (unsigned long)c->daemon, 0, 0, 0);
}

int client_reg_mr(struct client *c, struct ctl_reg_mr *r)
{
    struct ctl_msg m = {.reg_mr = *r};
    int fd, err;

    allow_daemon(c);
    fd = mr_backing_find(r->addr, r->length, &m.reg_mr.fd_offset);
    if (fd >= 0)
        m.reg_mr.flags |= CTL_MR_FD;
    err = conn_call(&c->conn, CTL_REG_MR, &m, &fd, fd >= 0, NULL, 0);
    if (fd >= 0)
        close(fd);
    if (!err)
        *r = m.reg_mr;
    return err;
}
