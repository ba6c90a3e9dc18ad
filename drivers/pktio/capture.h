/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port that writes the frames of another one to a pcap file, because tcpdump cannot see a DPDK
 * port. It writes received and sent frames, each once: a frame to the port itself is written when
 * it is sent. The file is complete whenever the worker goes to sleep, or has received nothing for a
 * while, and when the port is closed.
 */
#ifndef UROCE_PKTIO_CAPTURE_H
#define UROCE_PKTIO_CAPTURE_H

#include "pktio.h"

struct pktio_capture_config {
    const char *file;
    uint64_t frames; /* the capture ends after this many frames; 0: no limit */
    /* NULL, or called once where the capture ends before, as the disk is full: with the errno, and
     * how many frames the file has; of a pipe, how many its reader can have at most. A worker; or
     * the control thread, while the port opens or closes. */
    void (*ended)(void *arg, int err, uint64_t frames);
    void *arg;
};

/*
 * Takes over io: the caller then uses and closes it through the returned port. NULL: the file
 * cannot be written, error (size bytes) says why, and the caller keeps io. Control thread. A full
 * disk ends the capture and has no other effect.
 */
struct pktio *pktio_capture_open(struct pktio *io, const struct pktio_capture_config *config,
                                 char *error, size_t size);

#endif
