/* SPDX-License-Identifier: BSD-3-Clause */
/* See segment.h. */
#include "objects/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Without these seals an application could shrink the file, and the daemon would get SIGBUS. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int segment_create(struct segment *s, const char *name, size_t bytes, int *fd)
{
    int memfd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *base;

    if (memfd < 0)
        return -errno;
    if (ftruncate(memfd, (off_t)bytes) || fcntl(memfd, F_ADD_SEALS, SEALS))
        goto fail;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (base == MAP_FAILED)
        goto fail;
    madvise(base, bytes, MADV_DONTDUMP); /* inline data; a core file is no place for it */
    *s = (struct segment){.base = base, .bytes = bytes};
    *fd = memfd;
    return 0;
fail:;
    int err = -errno;

    close(memfd);
    return err;
}

void segment_destroy(struct segment *s, bool keep)
{
    if (s->base && !keep)
        madvise(s->base, s->bytes, MADV_REMOVE);
    if (s->base)
        munmap(s->base, s->bytes);
    *s = (struct segment){0};
}
