/* SPDX-License-Identifier: BSD-3-Clause */
/* See cm_msg.h. */
#include "cm_msg.h"

#include <string.h>

#include "common.h"

static const struct message_row {
    const char *name;
    uint16_t attribute;
    uint8_t private_data;
} messages[CM_MESSAGE_COUNT] = {
#define X(message, attribute, private_data) [CM_##message] = {#message, attribute, private_data},
    CM_MESSAGES(X)
#undef X
};

static const struct cm_field_info fields[CM_FIELD_COUNT] = {
#define X(message, field, byte, bit, bits) \
    [CM_##message##_##field] = {CM_##message, {#field, byte, bits, bit}},
    CM_FIELDS(X)
#undef X
};

const struct cm_field_info *cm_field_info(enum cm_field field)
{
    return &fields[field];
}

const char *cm_message_name(enum cm_message message)
{
    return messages[message].name;
}

bool cm_msg_parse(struct cm_msg *m, const uint8_t *mad, size_t len)
{
    if (len < MAD_LEN || mad_get(mad, MAD_base_version) != MAD_BASE_VERSION ||
        mad_get(mad, MAD_mgmt_class) != MAD_CLASS_CM ||
        mad_get(mad, MAD_class_version) != CM_CLASS_VERSION ||
        mad_get(mad, MAD_method) != MAD_SEND || mad_get(mad, MAD_response))
        return false;
    for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++) {
        if (messages[i].attribute != mad_get(mad, MAD_attribute_id))
            continue;
        m->message = (enum cm_message)i;
        m->data = mad + MAD_HEADER;
        return true;
    }
    return false;
}

uint64_t cm_msg_get(const struct cm_msg *m, enum cm_field field)
{
    const struct cm_field_info *f = &fields[field];

    if (f->message != m->message || !bit_field_is_number(&f->field))
        return 0;
    return bit_field_get(m->data, &f->field);
}

const uint8_t *cm_msg_bytes(const struct cm_msg *m, enum cm_field field)
{
    const struct cm_field_info *f = &fields[field];

    if (f->message != m->message || bit_field_is_number(&f->field))
        return NULL;
    return m->data + f->field.byte;
}

const uint8_t *cm_msg_private_data(const struct cm_msg *m, size_t *len)
{
    *len = cm_msg_private_data_max(m->message);
    return m->data + messages[m->message].private_data;
}

size_t cm_msg_private_data_max(enum cm_message message)
{
    return CM_MSG_LEN - messages[message].private_data;
}

void cm_msg_init(uint8_t *mad, enum cm_message message, uint64_t transaction_id)
{
    memset(mad, 0, MAD_LEN);
    mad_set(mad, MAD_base_version, MAD_BASE_VERSION);
    mad_set(mad, MAD_mgmt_class, MAD_CLASS_CM);
    mad_set(mad, MAD_class_version, CM_CLASS_VERSION);
    mad_set(mad, MAD_method, MAD_SEND);
    mad_set(mad, MAD_transaction_id, transaction_id);
    mad_set(mad, MAD_attribute_id, messages[message].attribute);
}

void cm_msg_set(uint8_t *mad, enum cm_field field, uint64_t value)
{
    bit_field_put(mad + MAD_HEADER, &fields[field].field, value);
}

void cm_msg_set_bytes(uint8_t *mad, enum cm_field field, const void *bytes, size_t len)
{
    const struct bit_field *f = &fields[field].field;

    if (len) /* bytes may be NULL without */
        memcpy(mad + MAD_HEADER + f->byte, bytes, min_of(len, (size_t)f->bits / 8));
}

uint8_t *cm_msg_private_room(uint8_t *mad, enum cm_message message)
{
    return mad + MAD_HEADER + messages[message].private_data;
}
