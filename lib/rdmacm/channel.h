/* SPDX-License-Identifier: BSD-3-Clause */
/* What channel.c has for channel_read.c. All but the last two under the channel's lock. */
#ifndef UROCE_CMA_CHANNEL_H
#define UROCE_CMA_CHANNEL_H

#include "cma.h"

/* Whether a whole event was read that is not taken yet. */
bool channel_is_read(const struct cma_channel *ch);
/* Whether an event is there that the socket does not show, or the end of the daemon, to threads
 * that wait. */
bool channel_has_local(const struct cma_channel *ch);
/* The eventfd says whether there is one; had: whether there was one before. */
void channel_show_local(struct cma_channel *ch, bool had);
/* Puts an event of the daemon behind the other arrivals, or takes it out. */
void channel_add_arrival(struct cma_channel *ch, struct cma_arrival *a);
void channel_remove_arrival(struct cma_channel *ch, struct cma_arrival *a);
/* The daemon is gone: each id of the channel gets its last event, once. */
void channel_lose(struct cma_channel *ch);
/* Closes it unless it is -1, which it then is. */
void channel_close_fd(int *fd);
/* The structure alone, when no thread can reach the channel any more. */
void channel_free(struct cma_channel *ch);

#endif
