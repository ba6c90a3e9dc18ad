/* SPDX-License-Identifier: BSD-3-Clause */
/* The EAL, configured for an ordinary machine: no hugepages, no PCI scan unless a port needs it,
 * one lcore that may run on all CPUs of the process, no telemetry socket unless it is asked for. */
#define ALLOW_EXPERIMENTAL_API /* interrupt handles of our own */
#include "env.h"

#include <errno.h>
#include <limits.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_memory.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_ARGS 128

struct args {
    int argc;
    char *argv[MAX_ARGS + 1];
};

static int args_add(struct args *a, const char *text)
{
    if (a->argc == MAX_ARGS)
        return -E2BIG;
    a->argv[a->argc] = strdup(text);
    return a->argv[a->argc] ? a->argc++, 0 : -ENOMEM;
}

static void args_free(struct args *a)
{
    for (int i = 0; i < a->argc; i++)
        free(a->argv[i]);
}

/* "0@(0,2,5)": lcore 0 on the CPUs of the process, so that the EAL pins nothing. */
static void lcores_arg(char *out, size_t size)
{
    cpu_set_t set;
    size_t len;

    snprintf(out, size, "--lcores=0@(");
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        len = strlen(out);
        if (CPU_ISSET(cpu, &set) && len + 8 < size)
            snprintf(out + len, size - len, "%s%d", out[len - 1] == '(' ? "" : ",", cpu);
    }
    len = strlen(out);
    snprintf(out + len, size - len, ")");
}

static const char *program_name(const struct env_config *config)
{
    return config->program ? config->program : "uroced";
}

/* Whether the user gave one of these options (the list ends with NULL): alone or with =value, and a
 * short option such as "-l" also with its value attached. */
static bool has_option(const struct env_config *config, const char *const *names)
{
    for (; *names; names++) {
        size_t n = strlen(*names);

        for (int i = 0; i < config->argc; i++) {
            const char *rest = config->argv[i] + n;

            if (!strncmp(config->argv[i], *names, n) && (!*rest || *rest == '=' || n == 2))
                return true;
        }
    }
    return false;
}

static const struct {
    const char *text[2];
    const char *const *unless; /* the user gave one of these */
} default_options[] = {
    {{"--no-huge"},
     (const char *const[]){"--no-huge", "--in-memory", "--huge-dir", "--socket-mem",
                           "--huge-unlink", "--single-file-segments", NULL}},
    {{"-m", "256"},
     (const char *const[]){"-m", "--in-memory", "--huge-dir", "--socket-mem", "--huge-unlink",
                           "--single-file-segments", NULL}},
    {{"--no-shconf"}, (const char *const[]){"--no-shconf", "--proc-type", NULL}},
    {{"--log-level=warning"}, (const char *const[]){"--log-level", NULL}},
    /* It would say that there is no socket of its first version. */
    {{"--log-level=lib.telemetry:error"}, (const char *const[]){"--log-level", NULL}},
};
static const char *const telemetry_options[] = {"--no-telemetry", "--telemetry", NULL};
static const char *const prefix_options[] = {"--file-prefix", NULL};
static const char *const lcore_options[] = {"--lcores", "-l", "-c", NULL};
static const char *const pci_options[] = {"--no-pci", "-a", "--allow", "-b", "--block", NULL};

static int default_args(struct args *a, const struct env_config *config)
{
    char text[4096];
    int ret = 0;

    for (unsigned i = 0; i < sizeof(default_options) / sizeof(default_options[0]) && !ret; i++) {
        for (unsigned k = 0; k < 2 && default_options[i].text[k] && !ret; k++)
            ret = has_option(config, default_options[i].unless)
                      ? 0
                      : args_add(a, default_options[i].text[k]);
    }
    if (!ret && !config->telemetry && !has_option(config, telemetry_options))
        ret = args_add(a, "--no-telemetry");
    snprintf(text, sizeof(text), "--file-prefix=%s-%d", program_name(config), getpid());
    if (!ret && !has_option(config, prefix_options))
        ret = args_add(a, text);
    lcores_arg(text, sizeof(text));
    if (!ret && !has_option(config, lcore_options))
        ret = args_add(a, text);
    if (has_option(config, pci_options))
        return ret;
    if (!ret && !config->pci_count)
        ret = args_add(a, "--no-pci");
    for (unsigned i = 0; i < config->pci_count && !ret; i++) {
        snprintf(text, sizeof(text), "--allow=%s", config->pci[i]);
        ret = args_add(a, text);
    }
    return ret;
}

/* ---- core files ---- */

/* Packets hold bytes of applications. */
static int leave_out_segment(const struct rte_memseg_list *list, const struct rte_memseg *segment,
                             void *arg)
{
    madvise(segment->addr, segment->len, MADV_DONTDUMP);
    return 0;
}

static void leave_out_new(enum rte_mem_event event, const void *at, size_t len, void *arg)
{
    if (event == RTE_MEM_EVENT_ALLOC)
        madvise((void *)at, len, MADV_DONTDUMP);
}

/* What the EAL has, and what it will get; without hugepages it has all from the start. */
static void leave_out_of_cores(void)
{
    rte_memseg_walk(leave_out_segment, NULL);
    rte_mem_event_callback_register("uroce-core", leave_out_new, NULL);
}

/* ---- start and end ---- */

static bool has_own_folder; /* with our pid in its name */

/* The EAL does not remove the folder that it creates for its files. Ours has no file but the socket
 * of telemetry, which the EAL would remove later. */
static void remove_folder(const char *folder)
{
    char socket[PATH_MAX + 32];

    if (!has_own_folder)
        return;
    snprintf(socket, sizeof(socket), "%s/dpdk_telemetry.v2", folder);
    unlink(socket);
    rmdir(folder);
}

static int dpdk_init(const struct env_config *config)
{
    const char *program = program_name(config);
    bool defaults = config->argc == 0 || config->defaults;
    struct args a = {0};
    char *scratch[MAX_ARGS + 1];
    int ret = args_add(&a, program);

    if (!ret && defaults)
        ret = default_args(&a, config);
    for (int i = 0; i < config->argc && !ret; i++)
        ret = args_add(&a, config->argv[i]);
    if (!ret) {
        /* rte_eal_init reorders the array. */
        memcpy(scratch, a.argv, sizeof(scratch));
        ret = rte_eal_init(a.argc, scratch) < 0 ? -rte_errno : 0;
    }
    has_own_folder = defaults && !has_option(config, prefix_options);
    if (!ret) {
        leave_out_of_cores();
    } else {
        fprintf(stderr, "%s: DPDK's environment does not start: %s\n", program, strerror(-ret));
        remove_folder(rte_eal_get_runtime_dir());
    }
    args_free(&a);
    return ret;
}

struct parking {
    sem_t parked;
    int fd;
};

static void park(void *arg)
{
    struct parking *p = arg;

    sem_post(&p->parked);
    for (;;)
        pause();
}

/*
 * rte_eal_cleanup unmaps the memory of the EAL while its interrupt thread runs and visits what
 * drivers left registered there: net_memif the socket that a server listens on. The thread is
 * therefore kept in a callback of ours from here to the end of the process.
 */
static void park_interrupt_thread(void)
{
    struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
    static struct parking p;

    p.fd = eventfd(1, EFD_CLOEXEC);
    sem_init(&p.parked, 0, 0);
    if (handle && p.fd >= 0 && !rte_intr_fd_set(handle, p.fd) &&
        !rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) &&
        !rte_intr_callback_register(handle, park, &p)) {
        while (sem_wait(&p.parked))
            ;
    }
    rte_intr_instance_free(handle); /* the EAL has made a copy */
}

static void dpdk_fini(void)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", rte_eal_get_runtime_dir());
    park_interrupt_thread();
    rte_eal_cleanup();
    remove_folder(folder);
}

struct thread_start_args {
    void *(*fn)(void *);
    void *arg;
};

/* A registered thread has an lcore id, which gives it caches in the mempools. */
static void *registered_thread(void *arg)
{
    struct thread_start_args s = *(struct thread_start_args *)arg;
    void *result;

    free(arg);
    rte_thread_register();
    result = s.fn(s.arg);
    rte_thread_unregister();
    return result;
}

static int dpdk_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
    struct thread_start_args *s = malloc(sizeof(*s));
    int err;

    if (!s)
        return -ENOMEM;
    s->fn = fn;
    s->arg = arg;
    err = pthread_create(thread, NULL, registered_thread, s);
    if (err)
        free(s);
    else
        pthread_setname_np(*thread, name);
    return -err;
}

const struct env_ops env_dpdk = {
    .name = "dpdk",
    .init = dpdk_init,
    .fini = dpdk_fini,
    .thread_start = dpdk_thread_start,
};
