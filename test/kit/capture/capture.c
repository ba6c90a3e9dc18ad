/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture.h"

#include <errno.h>
#include <glob.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int walk_file(const char *path, capture_fn *fn, void *ctx)
{
    char errbuf[PCAP_ERRBUF_SIZE];
    pcap_t *pcap = pcap_open_offline(path, errbuf);
    struct pcap_pkthdr *header;
    const uint8_t *data;
    unsigned number = 0;
    int rc;

    if (!pcap)
        return -EIO;
    while ((rc = pcap_next_ex(pcap, &header, &data)) == 1) {
        uint8_t *copy;

        if (header->caplen != header->len)
            break;
        copy = malloc(header->len);
        if (!copy)
            break;
        memcpy(copy, data, header->len);
        fn(strrchr(path, '/') + 1, ++number, copy, header->len, ctx);
        free(copy);
    }
    pcap_close(pcap);
    return rc == PCAP_ERROR_BREAK ? 0 : -EIO;
}

int capture_walk(const char *folder, capture_fn *fn, void *ctx)
{
    char pattern[4096];
    glob_t found;
    int result;

    if (snprintf(pattern, sizeof(pattern), "%s/*.pcap", folder) >= (int)sizeof(pattern))
        return -ENAMETOOLONG;
    if (glob(pattern, 0, NULL, &found))
        return -ENOENT;
    result = (int)found.gl_pathc;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int rc = walk_file(found.gl_pathv[i], fn, ctx);

        if (rc < 0) {
            result = rc;
            break;
        }
    }
    globfree(&found);
    return result;
}
