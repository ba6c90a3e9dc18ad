/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that choose UDP source ports: see entropy.h. */
#include "entropy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

#define FLOW_LABEL_MASK UINT32_C(0xFFFFF)
#define QPN_MULTICAST   UINT32_C(0xFFFFFF)
#define PORT_MASK       (ENTROPY_PORTS - 1)

uint16_t entropy_port_kernel(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn)
{
    uint32_t fl = flow_label & FLOW_LABEL_MASK;

    if (!fl) {
        uint64_t v = (uint64_t)src_qpn * dest_qpn;

        v ^= v >> 20;
        v ^= v >> 40;
        fl = (uint32_t)v & FLOW_LABEL_MASK;
    }
    return (uint16_t)((fl & 0x3FFF) ^ (fl >> 14)) | ENTROPY_PORT_MIN;
}

uint32_t entropy_flow_label_cm(uint16_t src_port, uint16_t dest_port)
{
    return ((uint32_t)src_port * 31 + dest_port) & FLOW_LABEL_MASK;
}

/* A QPN's low 16 bits, with its third byte folded into the first. */
static uint16_t fold_qpn(uint32_t qpn)
{
    return (uint16_t)(qpn ^ (qpn >> 16 & 0xFF));
}

uint16_t entropy_port_rfc_rc(uint32_t src_qpn, uint32_t dest_qpn)
{
    uint16_t port = fold_qpn(src_qpn);

    if (src_qpn != dest_qpn)
        port ^= fold_qpn(dest_qpn);
    return port | ENTROPY_PORT_MIN;
}

uint16_t entropy_port_rfc_ud(uint32_t src_qpn, uint32_t dest_qpn)
{
    if (dest_qpn == QPN_MULTICAST)
        return fold_qpn(src_qpn) | ENTROPY_PORT_MIN;
    return entropy_port_rfc_rc(src_qpn, dest_qpn);
}

uint16_t entropy_port_rfc_cm(uint16_t src_port, uint16_t dest_port)
{
    return (src_port ^ dest_port) | ENTROPY_PORT_MIN;
}

/* The sequence of ports of a pair of QPNs. There are 2^n ports, so an odd stride reaches all. */
struct port_sequence {
    uint32_t start, stride;
};

static struct port_sequence port_sequence_of(uint32_t src_qpn, uint32_t dest_qpn)
{
    uint64_t low = src_qpn < dest_qpn ? src_qpn : dest_qpn;
    uint64_t high = src_qpn < dest_qpn ? dest_qpn : src_qpn;
    struct random mix = {low << 32 | high};
    uint64_t r = random_next(&mix);

    return (struct port_sequence){(uint32_t)r, (uint32_t)(r >> 32) | 1};
}

uint16_t entropy_port_spray(uint32_t src_qpn, uint32_t dest_qpn, uint32_t index)
{
    struct port_sequence s = port_sequence_of(src_qpn, dest_qpn);

    return (uint16_t)((s.start + s.stride * index) & PORT_MASK) | ENTROPY_PORT_MIN;
}

uint16_t entropy_port_after(uint16_t port, uint32_t src_qpn, uint32_t dest_qpn)
{
    return (uint16_t)((port + port_sequence_of(src_qpn, dest_qpn).stride) & PORT_MASK) |
           ENTROPY_PORT_MIN;
}

static uint16_t port_kernel(const struct entropy_flow *f)
{
    uint32_t flow_label = f->flow_label;

    if (!flow_label && (f->cm_src_port || f->cm_dest_port))
        flow_label = entropy_flow_label_cm(f->cm_src_port, f->cm_dest_port);
    return entropy_port_kernel(flow_label, f->src_qpn, f->dest_qpn);
}

static uint16_t port_rfc(const struct entropy_flow *f)
{
    if (f->cm_src_port || f->cm_dest_port)
        return entropy_port_rfc_cm(f->cm_src_port, f->cm_dest_port);
    /* The rules for RC and UD differ only for the group's QPN, and no QP is connected to that. */
    return entropy_port_rfc_ud(f->src_qpn, f->dest_qpn);
}

uint16_t entropy_port(const struct entropy_policy *policy, const struct entropy_flow *flow)
{
    switch (policy->rule) {
    case ENTROPY_RFC:
        return port_rfc(flow);
    case ENTROPY_FIXED:
        return policy->port | ENTROPY_PORT_MIN;
    case ENTROPY_SPRAY:
        return entropy_port_spray(flow->src_qpn, flow->dest_qpn, flow->index);
    case ENTROPY_KERNEL:
        break;
    }
    return port_kernel(flow);
}

static const char *const rule_name[] = {
    [ENTROPY_KERNEL] = "kernel",
    [ENTROPY_RFC] = "rfc",
    [ENTROPY_FIXED] = "fixed",
    [ENTROPY_SPRAY] = "spray",
};

static int parse_fixed(struct entropy_policy *policy, const char *port)
{
    unsigned long v;
    char *end;

    if (*port < '0' || *port > '9')
        return -EINVAL;
    errno = 0;
    v = strtoul(port, &end, strncmp(port, "0x", 2) == 0 ? 16 : 10);
    if (errno || *end || v < ENTROPY_PORT_MIN || v > UINT16_MAX)
        return -EINVAL;
    *policy = (struct entropy_policy){ENTROPY_FIXED, (uint16_t)v};
    return 0;
}

int entropy_policy_parse(struct entropy_policy *policy, const char *text)
{
    static const char fixed[] = "fixed:";

    if (strncmp(text, fixed, sizeof(fixed) - 1) == 0)
        return parse_fixed(policy, text + sizeof(fixed) - 1);
    for (int rule = ENTROPY_KERNEL; rule <= ENTROPY_SPRAY; rule++)
        if (rule != ENTROPY_FIXED && strcmp(text, rule_name[rule]) == 0) {
            *policy = (struct entropy_policy){(enum entropy_rule)rule, 0};
            return 0;
        }
    return -EINVAL;
}

void entropy_policy_format(char out[ENTROPY_TEXT_MAX], const struct entropy_policy *policy)
{
    if (policy->rule == ENTROPY_FIXED)
        snprintf(out, ENTROPY_TEXT_MAX, "%s:%u", rule_name[policy->rule],
                 policy->port | ENTROPY_PORT_MIN);
    else
        snprintf(out, ENTROPY_TEXT_MAX, "%s", rule_name[policy->rule]);
}
