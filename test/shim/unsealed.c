/* SPDX-License-Identifier: BSD-3-Clause */
/* For LD_PRELOAD: files in memory look sealed against shrinking, and are not. A program can then
 * take memory away that uroced has mapped, as a memory error does. */
#include <dlfcn.h>
#include <linux/fcntl.h> /* the C library's may rename fcntl to fcntl64 */
#include <stdarg.h>

static int look(const char *name, int fd, int command, void *arg)
{
    int (*next)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    int result = next(fd, command, arg);

    return command == F_GET_SEALS && result >= 0 ? result | F_SEAL_SHRINK : result;
}

#define EXPORTED __attribute__((visibility("default")))
#define WRAP(name)                               \
    EXPORTED int name(int fd, int command, ...); \
    int name(int fd, int command, ...)           \
    {                                            \
        va_list list;                            \
        void *arg;                               \
                                                 \
        va_start(list, command);                 \
        arg = va_arg(list, void *);              \
        va_end(list);                            \
        return look(#name, fd, command, arg);    \
    }

WRAP(fcntl)
WRAP(fcntl64)
