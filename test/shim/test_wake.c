/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that takes every wake-up it can reach: it sleeps on all words of all the memory that it
 * shares with uroced, and reads all eventfds that it has. Another program's first message after a
 * pause, which has to wake the worker, is as fast beside it as without it. Run by run_wake.py.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define ROUNDS    101
#define PAUSE_NS  3000000 /* the worker sleeps after a fraction of this */
#define WORDS_MAX 128     /* of one futex_waitv */
#define STACK     65536

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* As in linux/futex.h from 5.16 on. */
struct wait_word {
    uint64_t value, address;
    uint32_t flags, reserved;
};
#define WORD_OF_32_BITS 2

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- the thief ---- */

static void start_thread(void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    if (pthread_create(&thread, &attr, run, arg))
        _exit(2);
    pthread_attr_destroy(&attr);
}

static void *sleep_on_words(void *first)
{
    struct wait_word w[WORDS_MAX];
    volatile uint32_t *word = first;

    for (;;) {
        for (unsigned i = 0; i < WORDS_MAX; i++)
            w[i] = (struct wait_word){word[i], (uintptr_t)&word[i], WORD_OF_32_BITS, 0};
        if (syscall(SYS_futex_waitv, w, WORDS_MAX, 0, NULL, 0) < 0 && errno != EAGAIN)
            _exit(3);
    }
    return NULL;
}

static void *read_eventfd(void *fd)
{
    eventfd_t value;

    while (!eventfd_read((int)(intptr_t)fd, &value)) {
    }
    return NULL;
}

/* Mappings consist of whole pages, so of whole parts of WORDS_MAX words. */
static unsigned steal_words(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], mode[8];
    unsigned long from, to;
    unsigned n = 0;

    while (maps && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "memfd:uroce") || sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 ||
            mode[0] != 'r' || mode[3] != 's')
            continue;
        for (; from < to; from += WORDS_MAX * sizeof(uint32_t), n++)
            start_thread(sleep_on_words, (void *)from);
    }
    if (maps)
        fclose(maps);
    return n;
}

static unsigned steal_eventfds(void)
{
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned n = 0;

    while (fds && (entry = readdir(fds))) {
        int fd = atoi(entry->d_name);
        char name[64] = {0};

        if (readlinkat(dirfd(fds), entry->d_name, name, sizeof(name) - 1) < 0 ||
            strcmp(name, "anon_inode:[eventfd]"))
            continue;
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        start_thread(read_eventfd, (void *)(intptr_t)fd);
        n++;
    }
    if (fds)
        closedir(fds);
    return n;
}

struct thief {
    pid_t pid;
    int go, ready;
    unsigned words, eventfds; /* that it takes */
};

static void thief_run(int go, int ready)
{
    struct timespec rest = {.tv_nsec = 200000000};
    unsigned stolen[2];
    struct pair own;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(go, stolen, 1) != 1)
        _exit(1);
    pair_open(&own);
    stolen[0] = steal_words();
    stolen[1] = steal_eventfds();
    nanosleep(&rest, NULL); /* no event says that all of the threads sleep */
    if (write(ready, stolen, sizeof(stolen)) != sizeof(stolen))
        _exit(4);
    for (;;)
        pause();
}

/* Before the victim opens anything, which the thief would inherit. */
static void thief_create(struct thief *t)
{
    int go[2], ready[2];

    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (!t->pid)
        thief_run(go[0], ready[1]);
    close(go[0]);
    close(ready[1]);
    t->go = go[1];
    t->ready = ready[0];
}

static void thief_start(struct thief *t)
{
    unsigned stolen[2];

    assert_int_equal(write(t->go, "", 1), 1);
    assert_int_equal(read(t->ready, stolen, sizeof(stolen)), sizeof(stolen));
    t->words = stolen[0] * WORDS_MAX;
    t->eventfds = stolen[1];
}

static void thief_end(struct thief *t)
{
    int status;

    assert_int_equal(waitpid(t->pid, &status, WNOHANG), 0);
    kill(t->pid, SIGKILL);
    waitpid(t->pid, &status, 0);
    close(t->go);
    close(t->ready);
}

/* ---- the victim ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* What three quarters of messages take at most, in us, after a pause. A thief that gets every other
 * wake-up leaves the median as it was. */
static uint64_t latency_us(struct pair *p)
{
    struct timespec rest = {.tv_nsec = PAUSE_NS};
    uint64_t took[ROUNDS];
    struct ibv_wc wc;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t start;

        nanosleep(&rest, NULL);
        start = now_ns();
        assert_int_equal(post_send(&p->a, IBV_WR_RDMA_WRITE, &p->b, 0, 64, i), 0);
        await(p->cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        took[i] = now_ns() - start;
    }
    qsort(took, ROUNDS, sizeof(took[0]), compare);
    return took[ROUNDS * 3 / 4] / 1000;
}

static void wakes_are_not_stolen(void **state)
{
    uint64_t alone, beside;
    struct thief thief;
    struct pair p;

    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS)
        skip();
    thief_create(&thief);
    pair_open(&p);
    alone = latency_us(&p);
    thief_start(&thief);
    beside = latency_us(&p);
    print_message("%u us; beside a thief of %u words and %u eventfds %u us\n", (unsigned)alone,
                  thief.words, thief.eventfds, (unsigned)beside);
    assert_true(thief.words);
    assert_true(beside < 4 * alone + 2000);
    thief_end(&thief);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wakes_are_not_stolen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
