/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that are killed at any moment: while they connect, register memory, transfer, destroy,
 * or connect by rdma_cm.
 *
 * usage: mortals KILLS AT_ONCE SEED UID
 *
 * Each program goes through these phases again and again until SIGKILL comes, after a random time.
 * Its peer is another program, which is killed as well. Prints how many were killed in each phase.
 * Ends with an error when a program ends by itself, or sees a completion that it must not see.
 */
#include <fcntl.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mortals_cm.h"
#include "program_kit.h"

#define AT_ONCE_MAX 16
#define LIFE_US     12000u /* at most */
#define REGION      ((size_t)128 << 10)
#define REGIONS     3
#define WR          32u
#define OPERATIONS  400u

enum phase { CONNECTING, REGISTERING, TRANSFERRING, DESTROYING, BY_CM, PHASES };
static const char *const names[] = {"connecting", "registering", "transferring", "destroying",
                                    "by-cm"};

/* What programs know of each other. */
struct life {
    _Atomic uint32_t phase, qpn, rkey;
    _Atomic uint64_t addr;
};
static struct life *lives;

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static void enter(struct life *own, enum phase phase)
{
    atomic_store(&own->phase, phase);
}

/* ---- a program ---- */

struct program {
    struct opened a;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr[REGIONS]; /* adopted, mapped, copied */
    void *memory[REGIONS];
    size_t bytes[REGIONS];
};

static void *sealed_memory(size_t bytes)
{
    int fd = memfd_create("mortal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at;

    check(fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), "memfd");
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(at == MAP_FAILED, "mmap");
    close(fd);
    return at;
}

static void register_all(struct program *p, struct life *own)
{
    p->memory[0] = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p->memory[1] = sealed_memory(REGION);
    p->memory[2] = must(calloc(1, 4096), "memory");
    p->bytes[0] = p->bytes[1] = REGION;
    p->bytes[2] = 4096;
    for (unsigned i = 0; i < REGIONS; i++)
        p->mr[i] = must(
            ibv_reg_mr(p->a.pd, p->memory[i], p->bytes[i],
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
            "region");
    atomic_store(&own->addr, (uintptr_t)p->memory[1]);
    atomic_store(&own->rkey, p->mr[1]->rkey);
}

/* Work of all kinds; what the peer does not live to see ends with an error. */
static void transfer(struct program *p, struct life *peer)
{
    unsigned outstanding = 0;
    struct ibv_wc wc[WR];

    for (unsigned i = 0; i < OPERATIONS; i++) {
        unsigned which = random_below(REGIONS);
        bool read = random_below(2);
        struct ibv_sge sge = {.addr = (uintptr_t)p->memory[which],
                              .length = random_below((uint32_t)p->bytes[which]) + 1,
                              .lkey = p->mr[which]->lkey};
        struct ibv_send_wr wr = {
            .opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
            .sg_list = &sge,
            .num_sge = 1,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = atomic_load(&peer->addr), .rkey = atomic_load(&peer->rkey)}};
        struct ibv_send_wr *bad;
        int found;

        if (outstanding < WR) {
            check(ibv_post_send(p->qp, &wr, &bad), "post");
            outstanding++;
        }
        found = ibv_poll_cq(p->cq, (int)WR, wc);
        check(found < 0, "poll");
        outstanding -= (unsigned)found;
    }
}

static void destroy_all(struct program *p)
{
    check(ibv_destroy_qp(p->qp), "queue pair's end");
    for (unsigned i = 0; i < REGIONS; i++)
        check(ibv_dereg_mr(p->mr[i]), "region's end");
    check(ibv_destroy_cq(p->cq), "completion queue's end");
    check(ibv_destroy_comp_channel(p->channel), "channel's end");
    check(ibv_dereg_mr(p->a.mr) || ibv_dealloc_pd(p->a.pd), "domain's end");
    check(ibv_close_device(p->a.ctx), "device's end");
    free(p->a.memory);
    munmap(p->memory[0], REGION);
    munmap(p->memory[1], REGION);
    free(p->memory[2]);
}

static void live(struct life *own, struct life *peer)
{
    if (random_below(4) == 0) { /* most programs do not live for a second round */
        enter(own, BY_CM);
        connect_by_cm();
    }
    for (;;) {
        struct program p = {0};
        struct life *with = random_below(2) ? peer : own;

        enter(own, CONNECTING);
        open_program(&p.a, 4096);
        p.channel = must(ibv_create_comp_channel(p.a.ctx), "channel");
        p.cq = make_cq(&p.a, (int)WR, p.channel);
        enter(own, REGISTERING);
        register_all(&p, own);
        p.qp = make_qp(&p.a, p.cq, WR, WR);
        atomic_store(&own->qpn, p.qp->qp_num);
        if (!atomic_load(&with->qpn))
            with = own;
        connect_to(p.qp, atomic_load(&with->qpn));
        enter(own, TRANSFERRING);
        transfer(&p, with);
        enter(own, DESTROYING);
        destroy_all(&p);
        enter(own, BY_CM);
        connect_by_cm();
    }
}

/* ---- their end ---- */

static pid_t give_birth(struct life *own, struct life *peer)
{
    pid_t pid = fork();

    check(pid < 0, "fork");
    if (!pid) {
        check(prctl(PR_SET_PDEATHSIG, SIGKILL), "parent");
        live(own, peer);
    }
    return pid;
}

static void wait_us(uint32_t us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

int main(int argc, char **argv)
{
    unsigned long kills = argc == 5 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned at_once = argc == 5 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    unsigned long in_phase[PHASES] = {0};
    pid_t pid[AT_ONCE_MAX] = {0};

    if (!kills || !at_once || at_once > AT_ONCE_MAX)
        return 2;
    random_state = strtoull(argv[3], NULL, 10);
    become((uid_t)atoi(argv[4]));
    lives = mmap(NULL, AT_ONCE_MAX * sizeof(*lives), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(lives == MAP_FAILED, "memory");
    for (unsigned long n = 0; n < kills + at_once; n++) {
        unsigned i = (unsigned)(n % at_once);
        int status;

        if (pid[i]) {
            wait_us(random_below(LIFE_US / at_once));
            in_phase[atomic_load(&lives[i].phase)]++;
            check(kill(pid[i], SIGKILL), "kill");
            check(waitpid(pid[i], &status, 0) < 0, "wait");
            if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
                fprintf(stderr, "mortals: a program ended by itself: %x\n", status);
                return 1;
            }
        }
        random_below(2); /* the next program's numbers are others */
        pid[i] = n < kills ? give_birth(&lives[i], &lives[(i + 1) % at_once]) : 0;
    }
    for (unsigned i = 0; i < PHASES; i++)
        printf("%s %lu\n", names[i], in_phase[i]);
    return 0;
}
