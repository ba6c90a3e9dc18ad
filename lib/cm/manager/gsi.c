/* SPDX-License-Identifier: BSD-3-Clause */
/* See gsi.h. */
#include "gsi.h"

#include <string.h>

#include "cm_msg.h"

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
    uint64_t method;

    if (len < MAD_LEN || !has_response(mad))
        return false;
    status = status_of(mad);
    method = mad_get(mad, MAD_method);
    memcpy(answer, mad, MAD_LEN);
    mad_set(answer, MAD_response, 1);
    mad_set(answer, MAD_method, method == MAD_SET ? MAD_GET : method); /* both have GetResp */
    mad_set(answer, MAD_base_version, MAD_BASE_VERSION);
    mad_set(answer, MAD_status, status);
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
