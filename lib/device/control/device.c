/* SPDX-License-Identifier: BSD-3-Clause */
/* What all files may do with a device. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "control/session_state.h"
#include "device_host.h"

void device_quiesce(struct device *d)
{
    for (unsigned i = 0; i < d->parts; i++)
        worker_quiesce(d->workers[i]);
}

void device_call_all(struct device *d, worker_fn fn, void *arg)
{
    worker_call_all(d->workers, d->parts, fn, arg);
}

uint32_t device_mtu_code(uint32_t mtu)
{
    uint32_t code = MTU_CODE_MAX;

    while (code > 1 && (128u << code) + MTU_AROUND > mtu)
        code--;
    return code;
}

/* EUI-64 from the MAC, as NICs do. */
uint64_t device_node_guid(const struct device *d)
{
    const uint8_t *m = d->info.mac;
    uint8_t eui[8] = {m[0] ^ 2, m[1], m[2], 0xFF, 0xFE, m[3], m[4], m[5]};
    uint64_t guid;

    memcpy(&guid, eui, sizeof(guid));
    return guid;
}

int random_bytes(void *out, size_t n)
{
    ssize_t got;

    do
        got = getrandom(out, n, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)n ? 0 : -EIO;
}
