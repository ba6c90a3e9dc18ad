/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is left of a context whose daemon is gone: it crashed, was killed or ended, or ended this
 * connection. Its memory stays mapped until the context is closed, and no worker writes to it any
 * more: the daemon destroys a connection's queue pairs before it closes the connection, and the
 * kernel closes the descriptors of a killed process after its last thread has ended.
 *
 * The library then completes in the daemon's place. A thread whose poll finds nothing writes a
 * flush error for each WQE that has no completion, into the memory from which it polls. So polling
 * itself is as before, and costs nothing more. Rings take no more WQEs.
 *
 * Not every work request can be completed: WQEs that the daemon had taken from a shared receive
 * queue for a message that did not arrive completely are not in its ring any more. When all else is
 * flushed, polls fail.
 */
#ifndef UROCE_CLIENT_END_H
#define UROCE_CLIENT_END_H

#include "client.h"

/*
 * Whether the daemon is gone: looks at the connection. A daemon that is slow or stopped is not
 * gone. From the first time on that it is gone, rings take no more WQEs. Without locks; any thread.
 */
bool client_daemon_gone(struct client *c);

/*
 * The daemon is gone: writes flush errors into the queue, if it is empty, as many as it has room
 * for. An unsignaled WQE counts as outstanding until a later one of its queue has a completion.
 * Returns 1: the queue has completions; 0: it has none at the moment, because another thread is
 * posting; -EIO: it will have none. Takes the queue's lock; any thread.
 */
int client_cq_flush(struct client_cq *cq);

/*
 * In a forked child, at the fork: rings take no WQEs until client_rings_go_on, which continues
 * where the parent has stopped. Takes no lock: see client_inherit.c. Those of rings and completion
 * queues, which threads of the parent may have held, are free then.
 */
void client_rings_pause(struct client *c);
void client_rings_go_on(struct client *c);

#endif
