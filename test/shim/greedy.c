/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that takes as many objects of one kind as it gets, through the public API.
 *
 * usage: greedy UID KIND [COUNT]
 *
 * Prints the number of objects and the error that ended it, and ends with its input. UID 0: stays
 * the user that it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct ibv_device *device;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char memory[4096];

static void *take_pd(void)
{
    return ibv_alloc_pd(ctx);
}

static void *take_mr(void)
{
    return ibv_reg_mr(pd, memory, sizeof(memory), 0);
}

static void *take_mw(void)
{
    return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static void *take_channel(void)
{
    return ibv_create_comp_channel(ctx);
}

static void *take_cq(void)
{
    return ibv_create_cq(ctx, 16, NULL, NULL, 0);
}

static void *take_large_cq(void)
{
    return ibv_create_cq(ctx, 65536, NULL, NULL, 0);
}

static void *take_srq(void)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};

    return ibv_create_srq(pd, &attr);
}

static void *take_qp(void)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};

    return ibv_create_qp(pd, &attr);
}

/* A MiB of a sealed memfd, which the daemon maps as long as it may. */
static void *take_mapped(void)
{
    const size_t bytes = 1 << 20;
    int fd = memfd_create("greedy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at;

    if (fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
        return NULL;
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    memset(at, 1, bytes);
    return ibv_reg_mr(pd, at, bytes, IBV_ACCESS_LOCAL_WRITE);
}

static void *take_connection(void)
{
    return ibv_open_device(device);
}

static const struct {
    const char *kind;
    void *(*take)(void);
} kinds[] = {
    {"pds", take_pd},
    {"mrs", take_mr},
    {"mws", take_mw},
    {"mapped", take_mapped},
    {"channels", take_channel},
    {"cqs", take_cq},
    {"large_cqs", take_large_cq},
    {"srqs", take_srq},
    {"qps", take_qp},
    {"connections", take_connection},
};

/* The daemon serves no program that may not be traced, as one is that changes its user. */
static int become(uid_t uid)
{
    return setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ||
           prctl(PR_SET_DUMPABLE, 1);
}

static int open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    device = list ? list[0] : NULL;
    ctx = device ? ibv_open_device(device) : NULL;
    pd = ctx ? ibv_alloc_pd(ctx) : NULL;
    cq = ctx ? ibv_create_cq(ctx, 16, NULL, NULL, 0) : NULL;
    return pd && cq ? 0 : -1;
}

static void wait_for_end(void)
{
    char byte;

    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 10000000, n = 0;
    uid_t uid = argc > 2 ? (uid_t)atoi(argv[1]) : 0;

    if (argc < 3 || (uid && become(uid)) || open_device()) {
        fprintf(stderr, "greedy: %s\n", strerror(errno));
        return 1;
    }
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].kind, argv[2]))
            continue;
        errno = 0;
        while (n < count && kinds[i].take())
            n++;
        printf("%lu %s\n", n, n < count ? strerror(errno) : "-");
    }
    wait_for_end();
    return 0;
}
