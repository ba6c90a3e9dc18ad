/* SPDX-License-Identifier: BSD-3-Clause */
/* See host_cpus.h. */
#include "host_cpus.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPUS_MAX 8192

static void read_line(const char *name, char *text, size_t room)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* Sets the bits of a list such as "0-3,8". Returns the number of words with the highest one. */
static unsigned set_bits(const char *list, uint32_t word[CPUS_MAX / 32])
{
    unsigned words = 1;

    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;

        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < CPUS_MAX; first++) {
            word[first / 32] |= UINT32_C(1) << first % 32;
            if (words <= first / 32)
                words = (unsigned)(first / 32) + 1;
        }
        list = *end == ',' ? end + 1 : end;
    }
    return words;
}

int host_cpus(char *mask, char *list, size_t room)
{
    static uint32_t word[CPUS_MAX / 32];
    size_t used = 0;

    read_line("/sys/devices/system/cpu/online", list, room);
    if (list[0] == '\0')
        snprintf(list, room, "0");
    memset(word, 0, sizeof(word));
    mask[0] = '\0';
    for (unsigned i = set_bits(list, word); i > 0 && used + 10 < room; i--)
        used += (size_t)snprintf(mask + used, room - used, "%08x%s", word[i - 1], i > 1 ? "," : "");
    return access("/sys/devices/system/node/node0", F_OK) == 0 &&
                   access("/sys/devices/system/node/node1", F_OK) != 0
               ? 0
               : -1;
}
