/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Management datagrams (MADs, volume 1, 13.4): the payload of packets to queue pair 1, the general
 * services interface. Their common header, and the one attribute that every class has. Pure; any
 * thread.
 */
#ifndef UROCE_MAD_H
#define UROCE_MAD_H

#include "bit_field.h"

#define MAD_LEN    256
#define MAD_HEADER 24 /* bytes of the common header; the class's data follows */

#define MAD_QKEY         0x80010000u /* of queue pair 1 (10.2.5) */
#define MAD_BASE_VERSION 1

/* X(field, byte, bit, bits): the common header (13.4.3). */
#define MAD_FIELDS(X)           \
    X(base_version, 0, 0, 8)    \
    X(mgmt_class, 1, 0, 8)      \
    X(class_version, 2, 0, 8)   \
    X(response, 3, 0, 1)        \
    X(method, 3, 1, 7)          \
    X(status, 4, 0, 16)         \
    X(class_specific, 6, 0, 16) \
    X(transaction_id, 8, 0, 64) \
    X(attribute_id, 16, 0, 16)  \
    X(attribute_modifier, 20, 0, 32)

enum mad_field {
#define X(field, byte, bit, bits) MAD_##field,
    MAD_FIELDS(X)
#undef X
        MAD_FIELD_COUNT
};

/* Management classes (13.4.4). Those that vendors and applications give a meaning are ranges. */
enum mad_class {
    MAD_CLASS_SM_LID = 0x01, /* subnet management, of queue pair 0 alone */
    MAD_CLASS_CM = 0x07,
    MAD_CLASS_VENDOR_FIRST = 0x09,
    MAD_CLASS_VENDOR_LAST = 0x0F,
    MAD_CLASS_APPLICATION_FIRST = 0x10,
    MAD_CLASS_APPLICATION_LAST = 0x2F,
    MAD_CLASS_VENDOR_OUI_FIRST = 0x30, /* with the vendor's OUI at byte 37 */
    MAD_CLASS_VENDOR_OUI_LAST = 0x4F,
    MAD_CLASS_SM_DIRECTED = 0x81,
};

/* Methods (13.4.5), without the bit of a response. */
enum mad_method {
    MAD_GET = 0x01,
    MAD_SET = 0x02,
    MAD_SEND = 0x03,
    MAD_TRAP = 0x05,
    MAD_REPORT = 0x06,
    MAD_TRAP_REPRESS = 0x07,
};

/* The status of a response (13.4.7), as far as it depends on the common header. */
enum mad_status {
    MAD_STATUS_OK = 0,
    MAD_STATUS_BAD_VERSION = 0x04,
    MAD_STATUS_BAD_METHOD = 0x08,
    MAD_STATUS_BAD_METHOD_ATTRIBUTE = 0x0C,
};

#define MAD_CLASS_PORT_INFO 0x0001 /* the attribute */

/* X(field, byte, bit, bits): ClassPortInfo (13.4.8.1), from the start of a class's data. */
#define CLASS_PORT_INFO_FIELDS(X)       \
    X(base_version, 0, 0, 8)            \
    X(class_version, 1, 0, 8)           \
    X(capability_mask, 2, 0, 16)        \
    X(capability_mask2, 4, 0, 27)       \
    X(resp_time_value, 7, 3, 5)         \
    X(redirect_gid, 8, 0, 128)          \
    X(redirect_traffic_class, 24, 0, 8) \
    X(redirect_sl, 25, 0, 4)            \
    X(redirect_flow_label, 25, 4, 20)   \
    X(redirect_lid, 28, 0, 16)          \
    X(redirect_pkey, 30, 0, 16)         \
    X(redirect_qpn, 33, 0, 24)          \
    X(redirect_qkey, 36, 0, 32)         \
    X(trap_gid, 40, 0, 128)             \
    X(trap_traffic_class, 56, 0, 8)     \
    X(trap_sl, 57, 0, 4)                \
    X(trap_flow_label, 57, 4, 20)       \
    X(trap_lid, 60, 0, 16)              \
    X(trap_pkey, 62, 0, 16)             \
    X(trap_hop_limit, 64, 0, 8)         \
    X(trap_qpn, 65, 0, 24)              \
    X(trap_qkey, 68, 0, 32)

#define CLASS_PORT_INFO_LEN 72

enum class_port_info_field {
#define X(field, byte, bit, bits) CPI_##field,
    CLASS_PORT_INFO_FIELDS(X)
#undef X
        CPI_FIELD_COUNT
};

/* The rows, with their names. */
extern const struct bit_field mad_fields[MAD_FIELD_COUNT];
extern const struct bit_field class_port_info_fields[CPI_FIELD_COUNT];

/* A field of the header; mad has MAD_HEADER bytes. */
static inline uint64_t mad_get(const uint8_t *mad, enum mad_field field)
{
    return bit_field_get(mad, &mad_fields[field]);
}

static inline void mad_set(uint8_t *mad, enum mad_field field, uint64_t value)
{
    bit_field_put(mad, &mad_fields[field], value);
}

/* A number in the ClassPortInfo of a MAD of MAD_LEN bytes. */
static inline uint64_t class_port_info_get(const uint8_t *mad, enum class_port_info_field field)
{
    return bit_field_get(mad + MAD_HEADER, &class_port_info_fields[field]);
}

static inline void class_port_info_set(uint8_t *mad, enum class_port_info_field field,
                                       uint64_t value)
{
    bit_field_put(mad + MAD_HEADER, &class_port_info_fields[field], value);
}

#endif
