/* SPDX-License-Identifier: BSD-3-Clause */
/* See gsi.h. */
#include "gsi.h"

#include <errno.h>
#include <string.h>

#include "cm_msg.h"
#include "common.h"

#define RESP_TIME     18 /* 1.1 s: ClassPortInfo's, as the kernel's agents have it */
#define REQ_ATTRIBUTE 0x0010

/* Methods without a response. */
static bool has_response(const uint8_t *mad)
{
    uint64_t method = mad_get(mad, MAD_method);

    return !mad_get(mad, MAD_response) && method != MAD_SEND && method != MAD_TRAP &&
           method != MAD_TRAP_REPRESS;
}

static enum mad_status status_of(const uint8_t *mad)
{
    bool cm = mad_get(mad, MAD_mgmt_class) == MAD_CLASS_CM;

    if (mad_get(mad, MAD_base_version) != MAD_BASE_VERSION)
        return MAD_STATUS_BAD_VERSION;
    if (cm && mad_get(mad, MAD_class_version) != CM_CLASS_VERSION)
        return MAD_STATUS_BAD_VERSION;
    if (cm && mad_get(mad, MAD_method) == MAD_GET)
        return mad_get(mad, MAD_attribute_id) == MAD_CLASS_PORT_INFO
                   ? MAD_STATUS_OK
                   : MAD_STATUS_BAD_METHOD_ATTRIBUTE;
    /* Of a class that is not there, no method of an attribute is. */
    return cm ? MAD_STATUS_BAD_METHOD : MAD_STATUS_BAD_METHOD_ATTRIBUTE;
}

/* A response to it, with the same data. */
static void begin_answer(uint8_t *answer, const uint8_t *mad, enum mad_status status)
{
    uint64_t method = mad_get(mad, MAD_method);

    memcpy(answer, mad, MAD_LEN);
    mad_set(answer, MAD_response, 1);
    mad_set(answer, MAD_method, method == MAD_SET ? MAD_GET : method); /* both have GetResp */
    mad_set(answer, MAD_base_version, MAD_BASE_VERSION);
    mad_set(answer, MAD_status, status);
}

static void put_class_port_info(uint8_t *mad)
{
    memset(mad + MAD_HEADER, 0, MAD_LEN - MAD_HEADER);
    class_port_info_set(mad, CPI_base_version, MAD_BASE_VERSION);
    class_port_info_set(mad, CPI_class_version, CM_CLASS_VERSION);
    class_port_info_set(mad, CPI_capability_mask,
                        GSI_CM_RELIABLE_CONNECTIONS | GSI_CM_UNRELIABLE_CONNECTIONS | GSI_CM_SIDR);
    class_port_info_set(mad, CPI_resp_time_value, RESP_TIME);
}

bool gsi_answer(uint8_t *answer, const uint8_t *mad, size_t len)
{
    enum mad_status status;

    if (len < MAD_LEN || !has_response(mad))
        return false;
    status = status_of(mad);
    begin_answer(answer, mad, status);
    if (status == MAD_STATUS_OK)
        put_class_port_info(answer);
    return true;
}

bool gsi_is_req_of_another_version(const uint8_t *mad, size_t len)
{
    return len >= MAD_LEN && mad_get(mad, MAD_base_version) == MAD_BASE_VERSION &&
           mad_get(mad, MAD_mgmt_class) == MAD_CLASS_CM &&
           mad_get(mad, MAD_class_version) != CM_CLASS_VERSION &&
           mad_get(mad, MAD_method) == MAD_SEND && !mad_get(mad, MAD_response) &&
           mad_get(mad, MAD_attribute_id) == REQ_ATTRIBUTE;
}

/* ---- classes with a handler ---- */

static const struct {
    uint8_t first, last;
} open_classes[] = {
    {MAD_CLASS_VENDOR_FIRST, MAD_CLASS_VENDOR_LAST},
    {MAD_CLASS_APPLICATION_FIRST, MAD_CLASS_APPLICATION_LAST},
    {MAD_CLASS_VENDOR_OUI_FIRST, MAD_CLASS_VENDOR_OUI_LAST},
};

static bool is_open(uint8_t mgmt_class)
{
    for (unsigned i = 0; i < ARRAY_SIZE(open_classes); i++)
        if (mgmt_class >= open_classes[i].first && mgmt_class <= open_classes[i].last)
            return true;
    return false;
}

/* Its row, or that behind the last one. */
static unsigned row_of(const struct gsi_classes *t, uint8_t mgmt_class)
{
    unsigned i = 0;

    while (i < t->count && t->row[i].mgmt_class != mgmt_class)
        i++;
    return i;
}

int gsi_classes_add(struct gsi_classes *t, uint8_t mgmt_class, const struct gsi_handler *handler)
{
    if (!is_open(mgmt_class) || !handler->rx)
        return -EINVAL;
    if (row_of(t, mgmt_class) < t->count)
        return -EBUSY;
    if (t->count == GSI_CLASSES_MAX)
        return -ENOSPC;
    t->row[t->count++] = (struct gsi_class){.mgmt_class = mgmt_class, .handler = *handler};
    return 0;
}

void gsi_classes_remove(struct gsi_classes *t, uint8_t mgmt_class)
{
    unsigned i = row_of(t, mgmt_class);

    if (i < t->count)
        t->row[i] = t->row[--t->count];
}

enum gsi_verdict gsi_classes_rx(const struct gsi_classes *t, const struct cm_path *way,
                                uint8_t *answer, const uint8_t *mad, size_t len)
{
    const struct gsi_handler *handler;
    enum gsi_verdict verdict;
    bool answered;
    unsigned i;

    if (len < MAD_LEN || mad_get(mad, MAD_base_version) != MAD_BASE_VERSION)
        return GSI_NOT_MINE;
    i = row_of(t, (uint8_t)mad_get(mad, MAD_mgmt_class));
    if (i == t->count)
        return GSI_NOT_MINE;
    handler = &t->row[i].handler;
    answered = has_response(mad);
    if (answered)
        begin_answer(answer, mad, MAD_STATUS_OK);
    verdict = handler->rx(handler->ctx, way, mad, answered ? answer : NULL);
    return verdict == GSI_ANSWER && !answered ? GSI_TAKEN : verdict;
}
