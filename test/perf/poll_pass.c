/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel gives to two programs that poll memory, beside others that compute: a flag goes
 * back and forth between two processes, with nothing between them. Programs like ib_write_lat poll
 * so; no NIC can pass it faster.
 *
 * usage: poll_pass SECONDS COMPUTING [SLICE_US]
 *
 * COMPUTING processes count beside the pair. With SLICE_US the two ask the scheduler for that time
 * slice (Linux 6.12 and later). Prints round trips in microseconds: median, 99 %, mean, and how
 * many.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 10000000u

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* A process of its own, which ends with this one. Returns in the child alone. */
static int is_child(pid_t *pid)
{
    *pid = fork();
    if (*pid < 0) {
        perror("fork");
        exit(1);
    }
    if (!*pid)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return !*pid;
}

static void compute(void)
{
    for (volatile unsigned long n = 0;; n++)
        ;
}

/* Of SCHED_OTHER's attributes the runtime is the slice. */
static void ask_for_slice(unsigned long us)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr), .runtime = us * 1000};

    if (us && syscall(SYS_sched_setattr, 0, &attr, 0))
        perror("sched_setattr");
}

/* The other end: whatever is given is given back. */
static void answer(_Atomic uint32_t *to, _Atomic uint32_t *from)
{
    for (uint32_t n = 1;; n++) {
        while (atomic_load_explicit(to, memory_order_acquire) != n)
            ;
        atomic_store_explicit(from, n, memory_order_release);
    }
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void print(float *us, uint32_t n, double seconds)
{
    if (!n) {
        puts("no round trip");
        return;
    }
    qsort(us, n, sizeof(*us), compare);
    printf("p50 %.2f p99 %.2f mean %.2f us, %u round trips\n", (double)us[n / 2],
           (double)us[n - n / 100 - 1], seconds * 1e6 / n, n);
}

static void measure(_Atomic uint32_t *to, _Atomic uint32_t *from, double seconds)
{
    float *us = malloc(ROUNDS_MAX * sizeof(*us));
    double began = now_us(), last = began, now = began;
    uint32_t n = 0;

    while (us && n < ROUNDS_MAX && now - began < seconds * 1e6) {
        atomic_store_explicit(to, n + 1, memory_order_release);
        while (atomic_load_explicit(from, memory_order_acquire) != n + 1)
            ;
        now = now_us();
        us[n++] = (float)(now - last);
        last = now;
    }
    if (us)
        print(us, n, (now - began) / 1e6);
    free(us);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
    unsigned long computing = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long slice = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    _Atomic uint32_t *memory =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[17];
    unsigned n = 0;

    if (argc < 3 || seconds <= 0 || computing > 16 || memory == MAP_FAILED) {
        fputs("usage: poll_pass SECONDS COMPUTING [SLICE_US]\n", stderr);
        return 2;
    }
    for (unsigned long i = 0; i < computing; i++)
        if (is_child(&pid[n++]))
            compute();
    ask_for_slice(slice);
    if (is_child(&pid[n++]))
        answer(&memory[0], &memory[1024]);
    measure(&memory[0], &memory[1024], seconds);
    for (unsigned i = 0; i < n; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    return 0;
}
