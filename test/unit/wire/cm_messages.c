/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for cm_tshark.py, each with other values in all fields: cm_messages COUNT. A line per
 * MAD: its kind, its bytes in hexadecimal, and field=value for each field; numbers are decimal,
 * others hexadecimal. CPI is the attribute ClassPortInfo; IP_CM are the fields of a REQ's private
 * data.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm_msg.h"
#include "ip_cm.h"
#include "random.h"

static struct random rng = {.state = 1};

static void fill(uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)random_next(&rng);
}

static void print_hex(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", p[i]);
}

/* Writes a value into the field, and into the line. */
static void set_field(char *line, size_t size, uint8_t *p, const struct bit_field *f)
{
    char *end = line + strlen(line);
    size_t left = size - strlen(line);

    if (bit_field_is_number(f)) {
        uint64_t value = random_next(&rng) >> (64 - f->bits);

        bit_field_put(p, f, value);
        snprintf(end, left, " %s=%" PRIu64, f->name, value);
        return;
    }
    fill(p + f->byte, f->bits / 8u);
    end += snprintf(end, left, " %s=", f->name);
    for (unsigned i = 0; i < f->bits / 8u; i++)
        end += sprintf(end, "%02x", p[f->byte + i]);
}

static void print_message(enum cm_message message)
{
    uint8_t mad[MAD_LEN];
    char line[4096] = "";

    cm_msg_init(mad, message, random_next(&rng));
    mad_set(mad, MAD_attribute_modifier, random_next(&rng));
    for (unsigned i = 0; i < CM_FIELD_COUNT; i++) {
        const struct cm_field_info *info = cm_field_info((enum cm_field)i);

        if (info->message == message)
            set_field(line, sizeof(line), mad + MAD_HEADER, &info->field);
    }
    fill(cm_msg_private_room(mad, message), cm_msg_private_data_max(message));
    printf("%s ", cm_message_name(message));
    print_hex(mad, sizeof(mad));
    for (unsigned i = 0; i < MAD_FIELD_COUNT; i++)
        printf(" mad.%s=%" PRIu64, mad_fields[i].name, mad_get(mad, (enum mad_field)i));
    printf("%s private_data=", line);
    print_hex(cm_msg_private_room(mad, message), cm_msg_private_data_max(message));
    printf("\n");
}

/* The header and the private data behind it, of a REQ to a port of RDMA_PS_TCP. */
static void print_ip_cm(unsigned ip_version)
{
    struct ip_cm_header h = {.ip_version = (uint8_t)ip_version};
    uint8_t mad[MAD_LEN], *data;
    uint16_t port = (uint16_t)random_next(&rng);

    h.src_port = (uint16_t)random_next(&rng);
    fill(h.src_addr, 16);
    fill(h.dst_addr, 16);
    cm_msg_init(mad, CM_REQ, 1);
    cm_msg_set(mad, CM_REQ_service_id, ip_cm_service_id(IP_CM_PS_TCP, port));
    data = cm_msg_private_room(mad, CM_REQ);
    fill(data, cm_msg_private_data_max(CM_REQ));
    ip_cm_build(data, &h);
    printf("IP_CM%u ", ip_version);
    print_hex(mad, sizeof(mad));
    printf(" dst_port=%u major_version=0 minor_version=0 ip_version=%u src_port=%u src_addr=", port,
           ip_version, h.src_port);
    print_hex(h.src_addr + (ip_version == 4 ? 12 : 0), ip_version == 4 ? 4 : 16);
    printf(" dst_addr=");
    print_hex(h.dst_addr + (ip_version == 4 ? 12 : 0), ip_version == 4 ? 4 : 16);
    printf(" private_data=");
    print_hex(data + IP_CM_HEADER, cm_msg_private_data_max(CM_REQ) - IP_CM_HEADER);
    printf("\n");
}

static void print_class_port_info(void)
{
    uint8_t mad[MAD_LEN] = {0};
    char line[4096] = "";

    for (unsigned i = 0; i < CPI_FIELD_COUNT; i++)
        set_field(line, sizeof(line), mad + MAD_HEADER, &class_port_info_fields[i]);
    printf("CPI ");
    print_hex(mad, sizeof(mad));
    printf("%s\n", line);
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 1;

    for (unsigned n = 0; n < count; n++) {
        for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++)
            print_message((enum cm_message)i);
        print_ip_cm(4);
        print_ip_cm(6);
        print_class_port_info();
    }
    return 0;
}
