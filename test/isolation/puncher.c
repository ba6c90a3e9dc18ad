/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that lets the daemon pay for its pages: it registers regions of a MiB, takes their pages
 * away, and has the daemon read one half of each and write the other.
 *
 * usage: puncher UID REGIONS
 *
 * Prints the number of regions and "-", and ends with its input.
 */
#include "program_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION (1 << 20)

static void punch_region(const struct opened *a, struct ibv_cq *cq, struct ibv_qp *qp)
{
    int fd = memfd_create("puncher", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct opened region = *a;

    check(fd < 0 || ftruncate(fd, REGION) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), "memfd");
    region.memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(region.memory == MAP_FAILED, "mmap");
    region.bytes = REGION;
    region.mr = must(ibv_reg_mr(a->pd, region.memory, REGION,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                     "region");
    check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, REGION), "holes");
    post(&region, qp, IBV_WR_RDMA_WRITE, REGION / 2);
    drain(cq, 1);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    struct opened a;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    char byte;

    if (argc != 3)
        return 1;
    become((uid_t)atoi(argv[1]));
    open_program(&a, 4096);
    cq = make_cq(&a, 16, NULL);
    qp = make_connected(&a, cq, 16, 1);
    for (unsigned i = 0; i < n; i++)
        punch_region(&a, cq, qp);
    printf("%u -\n", n);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}
