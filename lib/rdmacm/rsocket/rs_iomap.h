/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of the program that the peer writes directly. Without lock; streams only. */
#ifndef UROCE_RS_IOMAP_H
#define UROCE_RS_IOMAP_H

#include "rs_socket.h"

off_t rs_iomap(struct rsocket *rs, void *buf, size_t len, int prot, off_t offset);
int rs_iounmap(struct rsocket *rs, const void *buf, size_t len);
ssize_t rs_iowrite(struct rsocket *rs, const void *buf, size_t count, off_t offset, int flags);

#endif
