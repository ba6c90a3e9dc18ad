/* SPDX-License-Identifier: BSD-3-Clause */
/* The mappings of this process as the kernel reports them; nothing is cached. */
#ifndef UROCE_ADOPT_VMA_H
#define UROCE_ADOPT_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vma {
    uint64_t start, end, offset, ino;
    uint32_t major_dev, minor_dev;
    uint64_t page; /* size in bytes; 0: unknown */
    bool r, w, x, shared;
    char name[272]; /* a memfd has up to 249 characters of its own */
};

/* The mapping that contains addr, or else the next one: 0, -ENOENT, or another negative errno. */
int vma_find(uint64_t addr, struct vma *v);

/* Whether [start, end) of v still is mapped as it was. True also where the kernel is not asked, as
 * an answer would be a text of all mappings. */
bool vma_is_still(const struct vma *v, uint64_t start, uint64_t end);

/* Calls visit for every mapping of a file until it returns a value other than 0. visit may change
 * mappings. */
int vma_each_file(int (*visit)(const struct vma *v, void *arg), void *arg);

/* Whether every address of a range, which is not empty and does not wrap, has a mapping that may be
 * read, and with write also written: 0, -EFAULT, or what hinders the kernel's answer. */
int vma_check(uint64_t addr, uint64_t length, bool write);

/* How many mappings this process has, or 0. */
unsigned vma_count(void);

bool vma_is_heap(const struct vma *v);
/* Whether v maps a memfd, the program's own or one of lib/adopt. */
bool vma_is_memfd(const struct vma *v);
/* Whether v maps a memfd of lib/adopt, of this process or of one that it was forked from. */
bool vma_is_adopted(const struct vma *v);
int vma_prot(const struct vma *v);

#endif
