/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of causes: see cause.h. */
#include "cause.h"

#include <stddef.h>

static const struct cause_text texts[CAUSE_MAX + 1] = {
#define CAUSE(number, name, details, sentence, advice) \
    [number] = {#name, details, sentence, advice},
#include "cause.def"
#undef CAUSE
};

const struct cause_text *cause_text(uint32_t number)
{
    return number <= CAUSE_MAX && texts[number].name ? &texts[number] : NULL;
}
