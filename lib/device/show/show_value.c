/* SPDX-License-Identifier: BSD-3-Clause */
/* What several parts of the JSON have in common. */
#include "show/show.h"

#include "control/session_state.h"
#include "printable.h"
#include "trust.h"

json_t *show_number(uint64_t v)
{
    return json_integer((json_int_t)v);
}

json_t *show_name(const char *name)
{
    char text[PRINTABLE_GROWTH * 64];

    printable(text, sizeof(text), name);
    return json_string(text);
}

json_t *show_mac(const uint8_t m[6])
{
    return json_sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
}

json_t *show_gid(const union gid *gid)
{
    char text[46];

    gid_format(text, gid);
    return json_string(text);
}

json_t *show_entropy(const struct entropy_policy *policy)
{
    char text[ENTROPY_TEXT_MAX];

    entropy_policy_format(text, policy);
    return json_string(text);
}

bool viewer_sees(const struct viewer *v, const struct session *sn)
{
    return v->all || trust_same_user(v->uid, sn->peer.uid);
}

const char *qp_type_name(uint32_t type)
{
    static const char *const name[] = {[QPT_RC] = "RC",
                                       [QPT_UC] = "UC",
                                       [QPT_UD] = "UD",
                                       [QPT_RAW_PACKET] = "RAW_PACKET",
                                       [QPT_XRC_SEND] = "XRC_SEND",
                                       [QPT_XRC_RECV] = "XRC_RECV"};

    return type < ARRAY_SIZE(name) && name[type] ? name[type] : "?";
}
