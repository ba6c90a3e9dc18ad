/* SPDX-License-Identifier: BSD-3-Clause */
/* Attacks by memory: shared words that say anything, regions, pages that do not come. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attacker.h"
#include "doorbell.h"

#define GIB       ((size_t)1 << 30)
#define LATE_MS   2
#define LATE_SIZE MESSAGE

/* ---- doorbells ---- */

/* The context's segment, which the library has mapped. */
static struct ctx_shared *context_segment(void)
{
    FILE *maps = must(fopen("/proc/self/maps", "r"), "maps");
    unsigned long start = 0;
    char line[512];

    while (!start && fgets(line, sizeof(line), maps)) {
        if (strstr(line, "uroce-context"))
            start = strtoul(line, NULL, 16);
    }
    fclose(maps);
    return must((void *)start, "the context's segment");
}

/* Rings the doorbells of queue pairs without work, and of all numbers that are no queue pair's. */
void attack_doorbells(struct opened *a, unsigned n)
{
    struct doorbells *db = context_segment()->worker;
    struct ibv_cq *cq = make_cq(a, 16, NULL);

    for (unsigned i = 0; i < n; i++)
        make_connected(a, cq, 16, 1);
    say_ready();
    for (;;) {
        for (uint32_t slot = 0; slot < n; slot++)
            doorbell_ring(db, slot);
        for (uint32_t word = 0; word < DB_SLOTS / 64; word++) {
            atomic_store(doorbell_leaf(db, word), UINT64_MAX);
            atomic_store(doorbell_mid(db, word / 64), UINT64_MAX);
            if (word % 64 == 0)
                atomic_store(&db->top, UINT64_MAX);
        }
    }
}

/* ---- regions ---- */

/* Registers and deregisters n GiB of a memfd, which the daemon maps. A hole behind them, so that
 * the daemon must look at the pages. */
void attack_regions(struct opened *a, unsigned n)
{
    size_t bytes = n * GIB;
    int fd = memfd_create("attacker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at;

    check(fd < 0 || ftruncate(fd, (off_t)bytes + 4096) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK),
          "memfd");
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(at == MAP_FAILED, "mmap");
    memset(at, 1, bytes);
    say_ready();
    for (;;) {
        struct ibv_mr *mr = must(ibv_reg_mr(a->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE), "region");

        check(ibv_dereg_mr(mr), "deregistration");
    }
}

/* Takes the pages of n MiB of mapped memory away, and lets the daemon read them: they come again,
 * as the daemon's. */
void attack_holes(struct opened *a, unsigned n)
{
    size_t bytes = (size_t)n << 20;
    int fd = memfd_create("attacker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct ibv_cq *cq = make_cq(a, 16, NULL);
    struct ibv_qp *qp = make_connected(a, cq, 16, 1);
    struct opened holes = *a;
    void *at;

    check(fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), "memfd");
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(at == MAP_FAILED, "mmap");
    memset(at, 1, bytes);
    holes.mr = must(ibv_reg_mr(a->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                    "region");
    holes.memory = at;
    holes.bytes = bytes;
    for (unsigned round = 0;; round++) {
        check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes), "holes");
        post(&holes, qp, IBV_WR_RDMA_WRITE, bytes / 2);
        drain(cq, 1);
        if (!round)
            say_ready();
    }
}

/* ---- objects ---- */

/* Of each kind as many as the user may have, then one more of each, again and again. n: the most.
 */
void attack_exhaust(struct opened *a, unsigned n)
{
    struct ibv_cq *cq = make_cq(a, 16, NULL);

    for (unsigned i = 0; i < n && ibv_alloc_pd(a->ctx); i++)
        ;
    for (unsigned i = 0; i < n && ibv_create_cq(a->ctx, 16, NULL, NULL, 0); i++)
        ;
    for (unsigned i = 0; i < n && ibv_reg_mr(a->pd, a->memory, 64, IBV_ACCESS_LOCAL_WRITE); i++)
        ;
    say_ready();
    for (;;) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

        ibv_alloc_pd(a->ctx);
        ibv_create_cq(a->ctx, 16, NULL, NULL, 0);
        ibv_reg_mr(a->pd, a->memory, 64, IBV_ACCESS_LOCAL_WRITE);
        ibv_create_qp(a->pd, &init);
    }
}

/* Programs that end with n memory windows, one after the other. */
void attack_windows(struct opened *a, unsigned n)
{
    for (unsigned round = 0;; round++) {
        pid_t pid = fork();

        check(pid < 0, "fork");
        if (!pid) {
            struct opened own;

            check(prctl(PR_SET_PDEATHSIG, SIGKILL), "parent");
            open_program(&own, 4096);
            for (unsigned i = 0; i < n; i++)
                must(ibv_alloc_mw(own.pd, IBV_MW_TYPE_2), "window");
            _exit(0);
        }
        check(waitpid(pid, NULL, 0) < 0, "wait");
        if (!round)
            say_ready();
    }
}

/* ---- pages that come late ---- */

static int uffd = -1;

void prepare_silent(void)
{
    struct uffdio_api api = {.api = UFFD_API};

    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) {
        puts("skip: no userfaultfd");
        exit(0);
    }
}

/* n queue pairs send from pages that a userfaultfd holds back for some milliseconds, each time. */
void attack_silent(struct opened *a, unsigned n)
{
    void *held = mmap(NULL, LATE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register area = {.range = {.start = (uintptr_t)held, .len = LATE_SIZE},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};
    void *source = must(aligned_alloc(4096, LATE_SIZE), "memory");
    struct ibv_cq *cq = make_cq(a, (int)n, NULL);
    struct ibv_qp **qp = must(calloc(n, sizeof(*qp)), "memory");
    struct opened late = *a;

    memset(source, 1, LATE_SIZE);
    check(held == MAP_FAILED, "mmap");
    memset(held, 1, LATE_SIZE); /* there while they are registered */
    check(ioctl(uffd, UFFDIO_REGISTER, &area), "userfaultfd");
    late.mr =
        must(ibv_reg_mr(a->pd, held, LATE_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
             "region");
    late.memory = held;
    late.bytes = LATE_SIZE;
    for (unsigned i = 0; i < n; i++)
        qp[i] = make_connected(a, cq, 1, 1);
    for (unsigned round = 0;; round++) {
        struct uffdio_copy copy = {
            .dst = (uintptr_t)held, .src = (uintptr_t)source, .len = LATE_SIZE};

        check(madvise(held, LATE_SIZE, MADV_DONTNEED), "madvise");
        for (unsigned i = 0; i < n; i++)
            post(&late, qp[i], IBV_WR_RDMA_WRITE, LATE_SIZE / 2);
        if (!round)
            say_ready();
        nanosleep(&(struct timespec){.tv_nsec = LATE_MS * 1000000}, NULL);
        check(ioctl(uffd, UFFDIO_COPY, &copy), "supply");
        drain(cq, n);
    }
}
