/* SPDX-License-Identifier: BSD-3-Clause */
/* See cm_msg.h. */
#include "cm_msg.h"

#include "bytes.h"
#include "common.h"

/* The common MAD header (volume 1, 13.4.3); the versions are those of 16.7.1. */
#define MAD_BASE_VERSION_AT  0
#define MAD_CLASS_AT         1
#define MAD_CLASS_VERSION_AT 2
#define MAD_ATTRIBUTE_AT     16
#define MAD_BASE_VERSION     1
#define CM_CLASS             0x07
#define CM_CLASS_VERSION     2

static const struct message_row {
    uint16_t attribute;
    uint8_t private_data;
} messages[CM_MESSAGE_COUNT] = {
#define X(message, attribute, private_data) [CM_##message] = {attribute, private_data},
    CM_MESSAGES(X)
#undef X
};

static const struct field_row {
    uint8_t message, byte, bit, bits;
} fields[CM_FIELD_COUNT] = {
#define X(message, field, byte, bit, bits) \
    [CM_##message##_##field] = {CM_##message, byte, bit, bits},
    CM_FIELDS(X)
#undef X
};

bool cm_msg_parse(struct cm_msg *m, const uint8_t *mad, size_t len)
{
    if (len < CM_MAD_LEN || mad[MAD_BASE_VERSION_AT] != MAD_BASE_VERSION ||
        mad[MAD_CLASS_AT] != CM_CLASS || mad[MAD_CLASS_VERSION_AT] != CM_CLASS_VERSION)
        return false;
    for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++) {
        if (messages[i].attribute != get_be16(mad + MAD_ATTRIBUTE_AT))
            continue;
        m->message = (enum cm_message)i;
        m->data = mad + CM_MAD_HEADER;
        return true;
    }
    return false;
}

uint64_t cm_msg_get(const struct cm_msg *m, enum cm_field field)
{
    const struct field_row *f = &fields[field];
    unsigned end = f->bit + f->bits;
    uint64_t value = 0;

    if (f->message != m->message)
        return 0;
    for (unsigned i = 0; i < (end + 7) / 8; i++)
        value = value << 8 | m->data[f->byte + i];
    value >>= -end & 7;
    return f->bits < 64 ? value & ((UINT64_C(1) << f->bits) - 1) : value;
}

const uint8_t *cm_msg_private_data(const struct cm_msg *m, size_t *len)
{
    *len = CM_MSG_LEN - messages[m->message].private_data;
    return m->data + messages[m->message].private_data;
}
