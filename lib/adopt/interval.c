/* SPDX-License-Identifier: BSD-3-Clause */
/* A sorted array of intervals with users: see interval.h. */
#include "interval.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int interval_init(struct interval_set *s, size_t room)
{
    void *p = mmap(NULL, room * sizeof(*s->entry), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *s = (struct interval_set){0};
    if (p == MAP_FAILED)
        return -ENOMEM;
    s->entry = p;
    s->room = room;
    return 0;
}

void interval_fini(struct interval_set *s)
{
    if (s->entry)
        munmap(s->entry, s->room * sizeof(*s->entry));
    *s = (struct interval_set){0};
}

void interval_clear(struct interval_set *s)
{
    s->used = 0;
}

/* The first interval that ends after x. */
static size_t first_ending_after(const struct interval_set *s, uint64_t x)
{
    size_t low = 0, high = s->used;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (s->entry[mid].end > x)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void insert_at(struct interval_set *s, size_t i, uint64_t start, uint64_t end,
                      uint32_t users)
{
    memmove(&s->entry[i + 1], &s->entry[i], (s->used - i) * sizeof(s->entry[0]));
    s->entry[i] = (struct interval){start, end, users};
    s->used++;
}

static void remove_at(struct interval_set *s, size_t i)
{
    s->used--;
    memmove(&s->entry[i], &s->entry[i + 1], (s->used - i) * sizeof(s->entry[0]));
}

/* Splits the interval that x is inside of, if there is one, at x. */
static void split_at(struct interval_set *s, uint64_t x)
{
    size_t i = first_ending_after(s, x);

    if (i == s->used || s->entry[i].start >= x)
        return;
    insert_at(s, i, s->entry[i].start, x, s->entry[i].users);
    s->entry[i + 1].start = x;
}

/* Merges neighbours with the same users, from the one before `from` to the one that starts at
 * `end`. */
static void merge_neighbours(struct interval_set *s, size_t from, uint64_t end)
{
    size_t i = from ? from - 1 : 0;

    while (i + 1 < s->used && s->entry[i].end <= end) {
        struct interval *a = &s->entry[i], *b = a + 1;

        if (a->end == b->start && a->users == b->users) {
            a->end = b->end;
            remove_at(s, i + 1);
        } else {
            i++;
        }
    }
}

/* How many entries an addition creates at most: two splits, and one for the gap after each entry.
 */
static size_t max_new_entries(const struct interval_set *s, uint64_t start, uint64_t end)
{
    return first_ending_after(s, end) - first_ending_after(s, start) + 4;
}

int interval_add(struct interval_set *s, uint64_t start, uint64_t end)
{
    size_t first, i;

    if (start >= end)
        return 0;
    if (s->used + max_new_entries(s, start, end) > s->room)
        return -ENOSPC;
    split_at(s, start);
    split_at(s, end);
    first = first_ending_after(s, start);
    for (i = first; start < end; i++) {
        if (i == s->used || s->entry[i].start > start) {
            uint64_t stop = i == s->used || s->entry[i].start > end ? end : s->entry[i].start;

            insert_at(s, i, start, stop, 1);
        } else {
            s->entry[i].users++;
        }
        start = s->entry[i].end;
    }
    merge_neighbours(s, first, end);
    return 0;
}

void interval_remove(struct interval_set *s, uint64_t start, uint64_t end,
                     void (*unused)(void *arg, uint64_t start, uint64_t end), void *arg)
{
    size_t first, i;

    if (start >= end)
        return;
    /* An addition came before, so there is room for the splits; else the ends stay used. */
    if (s->used + 2 <= s->room) {
        split_at(s, start);
        split_at(s, end);
    }
    first = i = first_ending_after(s, start);
    while (i < s->used && s->entry[i].start < end) {
        struct interval gone = s->entry[i];

        if (gone.start < start || gone.end > end || --s->entry[i].users) {
            i++;
            continue;
        }
        remove_at(s, i);
        if (unused)
            unused(arg, gone.start, gone.end);
    }
    merge_neighbours(s, first, end);
}

bool interval_any(const struct interval_set *s, uint64_t start, uint64_t end)
{
    size_t i = first_ending_after(s, start);

    return start < end && i < s->used && s->entry[i].start < end;
}

void interval_widen(const struct interval_set *s, uint64_t low, uint64_t high, uint64_t *start,
                    uint64_t *end)
{
    size_t i = first_ending_after(s, *start);

    *start = i && s->entry[i - 1].end > low ? s->entry[i - 1].end : low;
    *end = i < s->used && s->entry[i].start < high ? s->entry[i].start : high;
}
