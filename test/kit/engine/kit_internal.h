/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the kit's own files. */
#ifndef UROCE_KIT_INTERNAL_H
#define UROCE_KIT_INTERNAL_H

#include "kit.h"

/* Accepts a frame that node i's engine filled; copies it. */
void kit_link_send(struct kit *k, struct kit_link *l, uint8_t *data, uint32_t len);
/* Whether the link accepts a frame now (always, without a rate). */
bool kit_link_ready(const struct kit_link *l, ns_t now);
/* When the next frame arrives; NS_NEVER. */
ns_t kit_link_next(const struct kit_link *l);
/* Passes the due frames to the receiving engine in bursts; returns how many. */
unsigned kit_link_deliver(struct kit *k, struct kit_link *l);
void kit_link_init(struct kit *k, unsigned from);
void kit_link_fini(struct kit_link *l);

/* Outer headers of a frame to any destination. */
enum drop kit_frame_view(struct encap_view *v, const uint8_t *data, uint32_t len);

/* Passes frames from a link to the node's engines. */
void kit_arrive(struct kit *k, struct kit_node *n, struct frame *frame, unsigned count);
/* struct engine_host's, with several engines. */
bool kit_forward(void *ctx, const struct frame *f, struct engine *to);
void kit_misplaced(void *ctx, struct qp *qp, uint32_t lane);
/* A frame that the engine sent: whether it is looped back, and goes nowhere else. */
bool kit_comes_back(struct kit_engine *p, const uint8_t *data, uint32_t len);
/* Delivers the due frames that were forwarded to an engine; returns how many. */
unsigned kit_handed_deliver(struct kit *k, struct kit_engine *p);
/* Adopts the queue pairs whose time has come; returns how many. */
unsigned kit_adopt_due(struct kit *k, struct kit_node *n);
/* A migrating queue pair arrives now. */
void kit_adopt(struct kit_qp *qp);
/* When the next of that happens at a node; NS_NEVER. */
ns_t kit_engines_next(const struct kit_node *n);
void kit_handed_fini(struct kit_engine *p);

/* The frames of the next call into the engine; none: it has returned. */
static inline void kit_lend(struct kit_engine *p, const struct frame *frame, unsigned n)
{
    p->lent = frame;
    p->lent_n = n;
    p->late_frames = 0;
}

/* Before kit_lend ends it: whether a late call writes to one of n frames that are sent. */
void kit_late_check_sent(const struct kit_engine *p, const struct frame *sent, unsigned n);

/* kit_config.late: some of an engine's calls end later. */
void kit_late_init(struct kit_engine *p, struct engine_config *config);
void kit_late_fini(struct kit_engine *p);
/* When the next one ends; NS_NEVER. */
ns_t kit_late_next(const struct kit_engine *p);
/* Ends it if it is due; returns whether it was. */
bool kit_late_end(struct kit *k, struct kit_engine *p);

/* Ends all of a node's. */
void kit_late_end_all(struct kit_node *n);

void kit_node_init(struct kit *k, unsigned index, struct qp_table *qps);
void kit_node_fini(struct kit_node *n);
/* Shared queues, address handles and windows, after the engine; the tables with them. */
void kit_srq_fini(struct kit_node *n);
/* Zeroed, of whole cache lines. */
void *kit_segment(size_t bytes);
/* The address vector from one node to another by an entry of both GID tables. */
struct address_vector kit_route(const struct kit_node *from, const struct kit_node *to,
                                const struct kit_rc *c);
void kit_memory_fini(struct kit_node *n);

#endif
