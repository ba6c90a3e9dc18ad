/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a server: closes a descriptor when the program listens, so that the test can start
 * the client. A listener of rdma_cm shows nowhere else.
 */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    int (*real)(struct rdma_cm_id *, int) = dlsym(RTLD_NEXT, "rdma_listen");
    const char *fd = getenv("UROCE_TEST_LISTENING_FD");
    int err = real(id, backlog);

    if (!err && fd) {
        close(atoi(fd));
        unsetenv("UROCE_TEST_LISTENING_FD");
    }
    return err;
}
