/* SPDX-License-Identifier: BSD-3-Clause */
/* See sys.h. */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cover.h"
#include "detach.h"
#include "folder.h"
#include "namespace.h"
#include "watcher.h"

/* Where the files are. */
enum place {
    PLACE_HERE, /* in this process's mount namespace, which is its own */
    PLACE_USER, /* in namespaces of the watching process, which this one then enters */
    PLACE_FOLDER,
};

/* From the watching process to the one that becomes the program. */
struct report {
    int err;
    pid_t pid;
    char what[32]; /* it is about */
    char folder[PATH_MAX];
};

struct start {
    const struct sys_options *options;
    enum place place;
    const char *path; /* of the daemon's socket */
    int sock, alive[2], report[2];
    pid_t program;
};

static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* ---- the watching process ---- */

#define KEPT_MAX 4 /* descriptors of the watching process, after the standard ones */

/* Gives up the terminal and all descriptors but n, which become the first ones after the standard
 * ones. */
static int keep_descriptors(int *const *fd, int n)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (int i = 0; i < n; i++) {
        *fd[i] = fcntl(*fd[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1 + n);
        if (*fd[i] < 0)
            return -errno;
    }
    for (int i = 0; i < STDERR_FILENO + 1 + n; i++)
        if (dup2(i <= STDERR_FILENO ? null : *fd[i - STDERR_FILENO - 1], i) < 0)
            return -errno;
    for (int i = 0; i < n; i++)
        *fd[i] = STDERR_FILENO + 1 + i;
    return close_range((unsigned)(STDERR_FILENO + 1 + n), ~0u, 0) != 0 ? -errno : 0;
}

static void allow_many_files(void)
{
    struct rlimit most;

    if (getrlimit(RLIMIT_NOFILE, &most) != 0)
        return;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

/* Where the files are to be: fills r. */
static int prepare(const struct start *s, struct sys_tree *t, struct user_ns *user_ns,
                   struct report *r)
{
    const char *what = "a user namespace";
    int err = 0;

    t->names = s->options->names;
    if (s->place == PLACE_FOLDER) {
        snprintf(r->what, sizeof(r->what), "a folder");
        t->root = r->folder;
        return folder_make(r->folder);
    }
    t->root = "/sys";
    t->dev = "/dev/infiniband";
    if (s->place == PLACE_USER)
        err = user_ns_enter(user_ns);
    if (err == 0)
        err = namespace_fill(&what);
    snprintf(r->what, sizeof(r->what), "%s", what);
    return err;
}

static int make_files(struct start *s, struct watch *w, struct report *r)
{
    int err = face_open(w->face, s->sock);

    if (err != 0) {
        snprintf(r->what, sizeof(r->what), "the daemon");
        return err;
    }
    err = prepare(s, w->tree, &w->user_ns, r);
    if (err == 0) {
        snprintf(r->what, sizeof(r->what), "the files");
        err = sys_tree_make(w->tree, w->face);
        if (err != 0 && s->place == PLACE_FOLDER) {
            /* The files that are open may be all that the process may have. */
            close_range(STDERR_FILENO + 1 + KEPT_MAX, ~0u, 0);
            folder_remove(r->folder);
        }
    }
    /* The process that becomes the program may be in this namespace already: a part of the files is
     * worse for it than none. */
    if (err != 0 && s->place != PLACE_FOLDER)
        cover_undo();
    return err;
}

static _Noreturn void be_watcher(struct start *s)
{
    static struct sys_tree tree;
    static struct face face;
    static struct report report;
    struct watch w = {
        .tree = &tree, .face = &face, .program = pidfd_of(s->program), .user_ns = USER_NS_NONE};
    int *const kept[KEPT_MAX] = {&s->sock, &s->alive[0], &s->report[1], &w.program};

    prctl(PR_SET_NAME, "uroce-sys");
    signal(SIGXFSZ, SIG_IGN); /* a limit of the size of files is an error, and the folder goes */
    umask(022);
    report.pid = getpid();
    report.err = keep_descriptors(kept, w.program >= 0 ? KEPT_MAX : KEPT_MAX - 1);
    if (report.err == 0 && chdir("/") != 0)
        report.err = -errno;
    allow_many_files();
    if (report.err == 0)
        report.err = make_files(s, &w, &report);
    /* So that the program, and other watching processes, may enter the namespaces. */
    prctl(PR_SET_DUMPABLE, 1);
    w.sock = s->sock;
    w.alive = s->alive[0];
    snprintf(w.path, sizeof(w.path), "%s", s->path);
    if (report.err == 0)
        watch_begin(&w);
    if (write(s->report[1], &report, sizeof(report)) != sizeof(report) || report.err != 0)
        _exit(1);
    close(s->report[1]);
    watch(&w);
    if (s->place == PLACE_FOLDER)
        folder_remove(report.folder);
    _exit(0);
}

/* ---- the process that becomes the program ---- */

static int start_watcher(struct start *s, struct report *r)
{
    ssize_t n;
    int err;

    if (pipe2(s->report, O_CLOEXEC) != 0)
        return -errno;
    err = fork_detached(); /* the program expects no child */
    if (err == 0)
        be_watcher(s);
    close(s->report[1]);
    if (err > 0) {
        do
            n = read(s->report[0], r, sizeof(*r));
        while (n < 0 && errno == EINTR);
        err = n == sizeof(*r) ? r->err : -ECHILD;
    }
    close(s->report[0]);
    return err;
}

/* Enters the namespaces of a process, and stays in the folder of the same path. */
static int enter(pid_t pid)
{
    char *here = getcwd(NULL, 0);
    int old = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = pidfd_of(pid), err = 0;

    if (fd < 0 || setns(fd, CLONE_NEWUSER | CLONE_NEWNS) != 0)
        err = -errno;
    else if (here == NULL || chdir(here) != 0)
        err = old < 0 || fchdir(old) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    if (old >= 0)
        close(old);
    free(here);
    return err;
}

static int begin_at(struct start *s, enum place place, struct report *r)
{
    int err;

    s->place = place;
    if (place == PLACE_HERE && unshare(CLONE_NEWNS) != 0) {
        strcpy(r->what, "a mount namespace");
        return -errno;
    }
    err = start_watcher(s, r);
    if (err == 0 && place == PLACE_USER) {
        strcpy(r->what, "a user namespace");
        err = enter(r->pid);
    }
    if (err == 0 && place == PLACE_FOLDER && getenv("SYSFS_PATH") == NULL &&
        setenv("SYSFS_PATH", r->folder, 1) != 0)
        err = -errno;
    return err;
}

int sys_names_valid(const char *names)
{
    size_t length;

    for (;; names += length + 1) {
        length = strcspn(names, ",");
        if (length == 0 || length >= CTL_NAME_MAX || names[0] == '.' ||
            strspn(names, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") <
                length)
            return 0;
        if (names[length] == '\0')
            return 1;
    }
}

int sys_names_repeat(const char *names)
{
    for (const char *next; (next = strchr(names, ',')) != NULL; names = next + 1) {
        size_t length = (size_t)(next - names);

        for (const char *other = next; other != NULL; other = strchr(other + 1, ','))
            if (strcspn(other + 1, ",") == length && strncmp(other + 1, names, length) == 0)
                return 1;
    }
    return 0;
}

int sys_names_taken(const char *names)
{
    unsigned count = 1;
    char own[32];

    for (const char *at = names; *at != '\0'; at++)
        count += *at == ',';
    for (unsigned i = count; i < count + FACE_DEVICES_MAX; i++) {
        size_t length = (size_t)snprintf(own, sizeof(own), "uroce%u", i);

        for (const char *name = names; name != NULL; name = strchr(name, ',')) {
            name += *name == ',';
            if (strcspn(name, ",") == length && strncmp(name, own, length) == 0)
                return 1;
        }
    }
    return 0;
}

static void explain(const struct report *r, int err)
{
    fprintf(stderr, "uroce: no device files of its own for the program: %s: %s; %s\n", r->what,
            strerror(-err), cover_reason(err));
}

int sys_begin(const struct sys_options *o, int sock, const char *path, int *keep)
{
    struct start s = {
        .options = o, .path = path, .sock = sock, .alive = {-1, -1}, .program = getpid()};
    static struct report report;
    int err;

    *keep = -1;
    if (o->mode == SYS_NO)
        return 0;
    err = pipe2(s.alive, O_CLOEXEC) != 0
              ? -errno
              : begin_at(&s, namespace_needs_user() ? PLACE_USER : PLACE_HERE, &report);
    if (err != 0 && (o->mode == SYS_YES || o->verbose))
        explain(&report, err);
    if (err != 0 && o->mode == SYS_YES)
        return -1;
    if (err != 0 && begin_at(&s, PLACE_FOLDER, &report) != 0) {
        if (o->verbose)
            fputs("uroce: and none in a folder\n", stderr);
        close(s.alive[0]);
        close(s.alive[1]);
        return 0;
    }
    if (err != 0 && o->verbose)
        fprintf(stderr, "uroce: they are in %s ($SYSFS_PATH)\n", report.folder);
    close(s.alive[0]);
    *keep = s.alive[1];
    return 0;
}
