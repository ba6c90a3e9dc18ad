/* SPDX-License-Identifier: BSD-3-Clause */
/* See dissect_mad.h. The tables of lib/wire say what there is to print. */
#include "dissect_mad.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cm_msg.h"
#include "gid.h"
#include "ip_cm.h"

#define LINE_WIDTH 110
#define INDENT     "   "
#define GSI_QPN    1

/* What a walk over the fields calls for each part and for each field. */
struct walk {
    void (*part)(struct walk *w, const char *name, const char *text);
    void (*number)(struct walk *w, const struct bit_field *f, uint64_t value);
    void (*bytes)(struct walk *w, const char *name, const uint8_t *p, size_t len);
    void (*gid)(struct walk *w, const char *name, const union gid *gid);
    unsigned column; /* of text */
    bool printed;
    json_t *root, *part_object;
};

bool dissect_is_mad(const struct pkt *p)
{
    return p->dest_qpn == GSI_QPN && pkt_info(p)->service == PKT_UD && p->payload_len >= MAD_LEN;
}

/* ---- the walk ---- */

/* How many bytes there are up to the last one that is not zero. */
static size_t used(const uint8_t *p, size_t len)
{
    while (len && !p[len - 1])
        len--;
    return len;
}

static void walk_field(struct walk *w, const uint8_t *base, const struct bit_field *f)
{
    union gid gid;

    if (bit_field_is_number(f)) {
        w->number(w, f, bit_field_get(base, f));
    } else if (f->bits == 8 * sizeof(gid)) {
        memcpy(gid.raw, base + f->byte, sizeof(gid));
        w->gid(w, f->name, &gid);
    } else {
        w->bytes(w, f->name, base + f->byte, used(base + f->byte, f->bits / 8u));
    }
}

/* Whether the private data begin with the header of RDMA IP CM. */
static bool has_ip_cm(const struct cm_msg *m, struct ip_cm_header *h)
{
    enum cm_field id = m->message == CM_REQ ? CM_REQ_service_id : CM_SIDR_REQ_service_id;
    const uint8_t *data;
    size_t len;

    if (m->message != CM_REQ && m->message != CM_SIDR_REQ)
        return false;
    data = cm_msg_private_data(m, &len);
    return ip_cm_port_space_of(cm_msg_get(m, id)) && ip_cm_parse(h, data, len);
}

static void walk_ip_cm(struct walk *w, const uint8_t *data, const struct ip_cm_header *h)
{
    union gid gid;

    w->part(w, "ip_cm", NULL);
    for (unsigned i = 0; i < IP_CM_FIELD_COUNT; i++)
        if (bit_field_is_number(&ip_cm_fields[i]))
            w->number(w, &ip_cm_fields[i], bit_field_get(data, &ip_cm_fields[i]));
    memcpy(gid.raw, h->src_addr, sizeof(gid));
    w->gid(w, "src_addr", &gid);
    memcpy(gid.raw, h->dst_addr, sizeof(gid));
    w->gid(w, "dst_addr", &gid);
}

static void walk_cm(struct walk *w, const struct cm_msg *m)
{
    struct ip_cm_header h;
    const uint8_t *data;
    size_t len;

    w->part(w, "cm", cm_message_name(m->message));
    for (unsigned i = 0; i < CM_FIELD_COUNT; i++)
        if (cm_field_info((enum cm_field)i)->message == m->message)
            walk_field(w, m->data, &cm_field_info((enum cm_field)i)->field);
    data = cm_msg_private_data(m, &len);
    if (!has_ip_cm(m, &h)) {
        w->bytes(w, "private_data", data, used(data, len));
        return;
    }
    w->bytes(w, "private_data", data + IP_CM_HEADER, used(data + IP_CM_HEADER, len - IP_CM_HEADER));
    walk_ip_cm(w, data, &h);
}

static void walk_class_port_info(struct walk *w, const uint8_t *mad)
{
    w->part(w, "class_port_info", NULL);
    for (unsigned i = 0; i < CPI_FIELD_COUNT; i++)
        walk_field(w, mad + MAD_HEADER, &class_port_info_fields[i]);
}

static void walk_mad(struct walk *w, const uint8_t *mad, size_t len)
{
    struct cm_msg m;

    w->part(w, "mad", NULL);
    for (unsigned i = 0; i < MAD_FIELD_COUNT; i++)
        walk_field(w, mad, &mad_fields[i]);
    if (cm_msg_parse(&m, mad, len))
        walk_cm(w, &m);
    else if (mad_get(mad, MAD_mgmt_class) == MAD_CLASS_CM && mad_get(mad, MAD_response) &&
             mad_get(mad, MAD_attribute_id) == MAD_CLASS_PORT_INFO)
        walk_class_port_info(w, mad);
}

/* ---- text ---- */

static void put_word(struct walk *w, const char *word)
{
    unsigned width = (unsigned)strlen(word) + 1;

    if (w->column + width > LINE_WIDTH) {
        printf("%s" INDENT, w->printed ? "\n" : "");
        w->column = (unsigned)sizeof(INDENT) - 1;
    }
    printf(" %s", word);
    w->column += width;
    w->printed = true;
}

static void text_part(struct walk *w, const char *name, const char *text)
{
    w->column = LINE_WIDTH; /* a part begins a line */
    put_word(w, name);
    if (text)
        put_word(w, text);
}

/* Numbers of a byte or less are counts and codes; larger ones mostly identify something. */
static void text_number(struct walk *w, const struct bit_field *f, uint64_t value)
{
    char word[80];

    if (f->bits <= 8)
        snprintf(word, sizeof(word), "%s %" PRIu64, f->name, value);
    else
        snprintf(word, sizeof(word), "%s 0x%0*" PRIx64, f->name, (f->bits + 3) / 4, value);
    put_word(w, word);
}

static void text_bytes(struct walk *w, const char *name, const uint8_t *p, size_t len)
{
    char word[2 * MAD_LEN + 40];
    int at = snprintf(word, sizeof(word), "%s %s", name, len ? "" : "-");

    for (size_t i = 0; i < len; i++)
        at += snprintf(word + at, sizeof(word) - (size_t)at, "%02x", p[i]);
    put_word(w, word);
}

static void text_gid(struct walk *w, const char *name, const union gid *gid)
{
    char word[100], address[46];

    gid_format(address, gid);
    snprintf(word, sizeof(word), "%s %s", name, address);
    put_word(w, word);
}

void dissect_mad_text(const struct pkt *p)
{
    struct walk w = {
        .part = text_part, .number = text_number, .bytes = text_bytes, .gid = text_gid};

    walk_mad(&w, p->payload, p->payload_len);
    putchar('\n');
}

/* ---- JSON ---- */

/* The common header's fields are the root's; "ip_cm" is in "cm". */
static void json_part(struct walk *w, const char *name, const char *text)
{
    json_t *part = json_object();

    if (!w->root) {
        w->root = w->part_object = part;
        return;
    }
    json_object_set_new(strcmp(name, "ip_cm") ? w->root : json_object_get(w->root, "cm"), name,
                        part);
    if (text)
        json_object_set_new(part, "message", json_string(text));
    w->part_object = part;
}

static void json_number(struct walk *w, const struct bit_field *f, uint64_t value)
{
    if (f->bits <= 32)
        json_object_set_new(w->part_object, f->name, json_integer((json_int_t)value));
    else
        json_object_set_new(w->part_object, f->name, json_sprintf("0x%016" PRIx64, value));
}

static void json_bytes(struct walk *w, const char *name, const uint8_t *p, size_t len)
{
    char text[2 * MAD_LEN + 1] = "";

    for (size_t i = 0; i < len; i++)
        snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02x", p[i]);
    json_object_set_new(w->part_object, name, json_string(text));
}

static void json_gid(struct walk *w, const char *name, const union gid *gid)
{
    char address[46];

    gid_format(address, gid);
    json_object_set_new(w->part_object, name, json_string(address));
}

json_t *dissect_mad_json(const struct pkt *p)
{
    struct walk w = {
        .part = json_part, .number = json_number, .bytes = json_bytes, .gid = json_gid};

    walk_mad(&w, p->payload, p->payload_len);
    return w.root;
}
