/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that make packets go wrong, as a line and an option have them. See spec.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "spec.h"

/* Why a laboratory cannot have a rule; NULL: it can. */
static const char *refusal(const struct inject_rule *rule)
{
    switch (inject_kind_of(rule->act)) {
    case INJECT_OF_PACKETS:
    case INJECT_OF_LINKS:
        return rule->program[0] ? "names a program, and a laboratory has none" : NULL;
    case INJECT_OF_CALLS:
        return "is about the calls of programs, and a laboratory has none";
    case INJECT_OF_REQUESTS:
        return "is about work requests: rules of a laboratory are about packets and links";
    case INJECT_NOW:
        return "happens at once, and is no rule";
    default:
        return "is not for a laboratory";
    }
}

static bool has_host(const struct lab_spec *spec, const char *pattern)
{
    for (unsigned i = 0; i < spec->nodes; i++)
        if (!spec->node[i].is_switch && lab_name_matches(spec->node[i].name, pattern))
            return true;
    return false;
}

/* Takes the pattern off a text that is no rule without one less word. What is wrong with a text
 * that is neither is what is wrong with the words that were meant as a rule. */
static int split(const struct lab_spec *spec, struct lab_rule *r, const char **text,
                 char error[INJECT_ERROR_MAX])
{
    char other[INJECT_ERROR_MAX];
    size_t len = strcspn(*text, " \t");
    const char *rest = *text + len;

    strcpy(r->hosts, "*");
    if (!inject_parse(&r->rule, *text, error))
        return 0;
    if (!len || len >= sizeof(r->hosts))
        return -EINVAL;
    memcpy(r->hosts, *text, len);
    r->hosts[len] = '\0';
    rest += strspn(rest, " \t");
    if (inject_parse(&r->rule, rest, other)) {
        if (has_host(spec, r->hosts))
            strcpy(error, other);
        return -EINVAL;
    }
    *text = rest;
    return 0;
}

int lab_read_rule(struct lab_spec *spec, const char *text, char error[INJECT_ERROR_MAX])
{
    struct lab_rule r;
    const char *why;
    int err;

    text += strspn(text, " \t");
    if (split(spec, &r, &text, error))
        return -EINVAL;
    why = refusal(&r.rule);
    if (why) {
        snprintf(error, INJECT_ERROR_MAX, "\"%.*s\" %s", (int)strcspn(text, " \t"), text, why);
        return -EINVAL;
    }
    if (r.rule.device[0] && strcmp(r.hosts, "*")) {
        snprintf(error, INJECT_ERROR_MAX, "\"device\" names a host, and so does \"%.40s\"",
                 r.hosts);
        return -EINVAL;
    }
    if (r.rule.device[0])
        strcpy(r.hosts, r.rule.device);
    if (strcmp(r.hosts, "*") && !has_host(spec, r.hosts)) {
        snprintf(error, INJECT_ERROR_MAX, "no host is called \"%.40s\"", r.hosts);
        return -EINVAL;
    }
    strcpy(r.text, text);
    err = lab_add_rule(spec, &r);
    if (err < 0)
        snprintf(error, INJECT_ERROR_MAX, "%s",
                 err == -ENOSPC ? "too many rules: 32 at most" : "out of memory");
    return err < 0 ? err : 0;
}
