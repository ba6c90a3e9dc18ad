/* SPDX-License-Identifier: BSD-3-Clause */
/* See mad.h. */
#include "mad.h"

#define X(field, byte, bit, bits) [MAD_##field] = {#field, byte, bits, bit},
const struct bit_field mad_fields[MAD_FIELD_COUNT] = {MAD_FIELDS(X)};
#undef X

#define X(field, byte, bit, bits) [CPI_##field] = {#field, byte, bits, bit},
const struct bit_field class_port_info_fields[CPI_FIELD_COUNT] = {CLASS_PORT_INFO_FIELDS(X)};
#undef X
