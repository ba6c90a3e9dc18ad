/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Quality of service of a port: how the service level and the traffic class that a program asks for
 * become the priority in the 802.1Q tag and the code point in the IP header, and how the type of
 * service that a connection manager is given becomes a service level. Pure tables; written by the
 * control thread before the port is used.
 */
#ifndef UROCE_QOS_H
#define UROCE_QOS_H

#include <stdint.h>

/** A port's tables. */
struct qos_map {
    uint8_t sl_to_pcp[16];      /**< service level to 802.1p priority, 0 to 7 */
    uint8_t dscp[64];           /**< code point asked for (traffic class >> 2) to the one sent */
    uint8_t priority_to_sl[16]; /**< kernel priority of a socket to service level, for the CM */
};

/**
 * Set the defaults: priority = SL & 7, code points as asked for, SL = priority & 7.
 *
 * @param m  The tables to set.
 */
void qos_map_default(struct qos_map *m);

/**
 * The kernel's priority of a socket (its legacy table, by bits 1 to 4 of the type of service).
 *
 * @param tos  The type of service.
 * @return  The priority, 0 to 15.
 */
uint8_t qos_tos_to_priority(uint8_t tos);

/**
 * The service level that rdma_set_option(RDMA_OPTION_ID_TOS) gives a connection.
 *
 * @param m  The port's tables.
 * @param tos  The type of service.
 * @return  The service level, 0 to 15.
 */
uint8_t qos_tos_to_sl(const struct qos_map *m, uint8_t tos);

/**
 * The traffic class that is sent for one that an application asks for.
 *
 * @param m  The port's tables.
 * @param traffic_class  The one asked for.
 * @return  The one sent; its ECN bits are those asked for.
 */
uint8_t qos_traffic_class(const struct qos_map *m, uint8_t traffic_class);

#define QOS_PRIORITIES 8

/**
 * Traffic classes of a port (IEEE 802.1Q, enhanced transmission selection), in the order in which
 * they are served: strict ones, each before all later ones, and then those that share what is left,
 * by bytes.
 */
struct qos_classes {
    unsigned count;                      /**< 0: priorities do not matter */
    uint8_t of_priority[QOS_PRIORITIES]; /**< the class of each priority */
    uint8_t percent[QOS_PRIORITIES];     /**< by class: its share; 0: it is strict */
};

/**
 * The priority under which counters file a frame: its tag's, or for an untagged frame the class
 * selector of its code point.
 *
 * @param tci  The whole tag, or VLAN_NONE (0xFFFF).
 * @param traffic_class  Of the IP header.
 * @return  0 to 7.
 */
static inline uint8_t qos_frame_priority(uint16_t tci, uint8_t traffic_class)
{
    return (uint8_t)(tci == 0xFFFF ? traffic_class >> 5 : tci >> 13);
}

#endif
