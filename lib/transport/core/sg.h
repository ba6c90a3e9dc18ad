/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter and gather between packets and the application's memory, by L_Keys. */
#ifndef UROCE_SG_H
#define UROCE_SG_H

#include "engine_private.h"

/* Whether all of an SGE list may be accessed. */
enum mr_fault sg_check(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                       uint32_t access);

/* Whether calls that copy to a list, which was checked, cannot be made now (mem_refuses). */
bool sg_is_refused(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n);

/* Copy len bytes from local to byte `off` of the list, or from there to local; where that takes a
 * system call the copy is queued under `tag` (a job). All that is copied is checked before.
 * MR_NO_ROOM, of sg_scatter: the call cannot be made now (late_wait). MR_OK, of sg_gather, also
 * where the job has failed, or is late, by then: it has its frame as others have theirs. */
enum mr_fault sg_scatter(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                         uint32_t off, const uint8_t *local, uint32_t len, unsigned tag);
enum mr_fault sg_gather(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                        uint32_t off, uint8_t *local, uint32_t len, unsigned tag);

/* These bytes in the dataplane's own memory, if the list may be read and they are mapped in one
 * piece; else NULL. Valid until the call into the engine returns. */
const uint8_t *sg_source(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                         uint32_t off, uint32_t len);

/* Do the queued copies now. Failures are marked in the jobs: rx_flush and tx_burst.c act
 * on them. */
void sg_flush_out(struct engine *e);
void sg_flush_in(struct engine *e);

#endif
