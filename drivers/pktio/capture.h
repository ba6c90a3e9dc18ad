/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port that writes what passes through another one to a pcap file, as tcpdump cannot see a DPDK
 * port. Received frames and sent ones, each once: a frame to the port itself is written when it is
 * sent. The file is complete whenever the port has nothing to do, and when it is closed.
 */
#ifndef UROCE_PKTIO_CAPTURE_H
#define UROCE_PKTIO_CAPTURE_H

#include "pktio.h"

struct pktio_capture_config {
    const char *file;
    uint64_t frames; /* at most so many are written; 0: as many as come */
};

/*
 * Takes io over: from then on it is used, and closed, through what is returned. NULL: the file
 * cannot be written, error (size bytes) says why, and io is still the caller's. Control thread.
 * A disk that is full ends the capture, and nothing else.
 */
struct pktio *pktio_capture_open(struct pktio *io, const struct pktio_capture_config *config,
                                 char *error, size_t size);

#endif
