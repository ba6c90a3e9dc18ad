/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of [uroced], and the keys of [port.N] about the port itself. See config_reader.h. */
#include "config_reader.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cpu_list.h"
#include "metrics_address.h"

bool config_key_is(const char *key, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(key, name, len))
        return false;
    if (!key[len])
        return true;
    return key[len] == '.' && key[len + 1] && !key[len + 1 + strspn(key + len + 1, "0123456789")];
}

/* "no", "pass" */
static int read_userfaultfd(struct reader *r, const char *value)
{
    r->config->pass_userfaultfd = !strcmp(value, "pass");
    if (r->config->pass_userfaultfd || !strcmp(value, "no"))
        return 0;
    return config_fail(r, "must be pass or no, not \"%s\"", value);
}

static int read_seccomp(struct reader *r, const char *value)
{
    bool yes = false;
    int err = config_yes_no(r, value, &yes);

    r->config->no_seccomp = !yes;
    return err;
}

/* "drop", "keep" */
static int read_capabilities(struct reader *r, const char *value)
{
    r->config->keep_capabilities = !strcmp(value, "keep");
    if (r->config->keep_capabilities || !strcmp(value, "drop"))
        return 0;
    return config_fail(r, "must be drop or keep, not \"%s\"", value);
}

/* "127.0.0.1:9440", "unix:/run/uroce-metrics.sock" */
static int read_metrics(struct reader *r, const char *value)
{
    struct metrics_address address;

    if (metrics_address_parse(&address, value))
        return config_fail(r,
                           "must be ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH, not \"%s\" (an "
                           "address is a number, a path begins with /)",
                           value);
    return config_text(r, value, r->config->metrics, sizeof(r->config->metrics));
}

/* "2,3", "4-7" */
static int read_cpus(struct reader *r, const char *value)
{
    if (!*value || cpu_list_at(value, UINT_MAX) == CPU_LIST_BAD)
        return config_fail(r, "must be a list of CPUs such as 2,3 or 4-7, not \"%s\"", value);
    return config_text(r, value, r->config->cpus, sizeof(r->config->cpus));
}

/* "adaptive", "always" */
static int read_poll(struct reader *r, const char *value)
{
    r->config->always_poll = !strcmp(value, "always");
    if (r->config->always_poll || !strcmp(value, "adaptive"))
        return 0;
    return config_fail(r, "must be adaptive or always, not \"%s\"", value);
}

int config_daemon_key(struct reader *r, const char *value)
{
    struct uroced_config *c = r->config;

    if (!strcmp(r->key, "socket"))
        return config_text(r, value, c->socket, sizeof(c->socket));
    if (!strcmp(r->key, "mode"))
        return config_number(r, value, 1, 0777, 8, &c->mode);
    if (!strcmp(r->key, "group"))
        return config_text(r, value, c->group, sizeof(c->group));
    if (!strcmp(r->key, "workers"))
        return config_number(r, value, 1, WORKERS_MAX, 10, &c->workers);
    if (!strcmp(r->key, "cpus"))
        return read_cpus(r, value);
    if (!strcmp(r->key, "poll"))
        return read_poll(r, value);
    if (!strcmp(r->key, "idle_exit"))
        return config_number(r, value, 1, 1000000, 10, &c->idle_exit);
    if (!strcmp(r->key, "userfaultfd"))
        return read_userfaultfd(r, value);
    if (!strcmp(r->key, "user"))
        return config_text(r, value, c->user, sizeof(c->user));
    if (!strcmp(r->key, "seccomp"))
        return read_seccomp(r, value);
    if (!strcmp(r->key, "capabilities"))
        return read_capabilities(r, value);
    if (!strcmp(r->key, "metrics"))
        return read_metrics(r, value);
    if (!strcmp(r->key, "telemetry"))
        return config_yes_no(r, value, &c->telemetry);
    if (!strcmp(r->key, "latency"))
        return config_yes_no(r, value, &c->latency);
    return config_fail(r, "is not a key of this section (socket, mode, group, workers, cpus, poll, "
                          "idle_exit, userfaultfd, user, seccomp, capabilities, metrics, "
                          "telemetry, latency)");
}

static int read_device(struct reader *r, const char *value)
{
    return config_text(r, value, r->port->device, sizeof(r->port->device));
}

static int read_mtu(struct reader *r, const char *value)
{
    return config_number(r, value, 576, 9600, 10, &r->port->mtu);
}

static int read_queues(struct reader *r, const char *value)
{
    return config_number(r, value, 1, WORKERS_MAX, 10, &r->port->queues);
}

static int read_spread(struct reader *r, const char *value)
{
    r->port->spread = !strcmp(value, "software");
    if (r->port->spread || !strcmp(value, "no"))
        return 0;
    return config_fail(r, "must be software or no, not \"%s\"", value);
}

static int read_dad(struct reader *r, const char *value)
{
    return config_yes_no(r, value, &r->port->detect_duplicates);
}

/* "v2", "v1 v2" */
static int read_roce(struct reader *r, const char *value)
{
    struct words w;

    config_split(&w, value);
    r->port->gid_types = 0;
    for (unsigned i = 0; i < w.count; i++) {
        if (!strcmp(w.word[i], "v1"))
            r->port->gid_types |= 1u << GID_TYPE_ROCE_V1;
        else if (!strcmp(w.word[i], "v2"))
            r->port->gid_types |= 1u << GID_TYPE_ROCE_V2;
        else
            return config_fail(r, "must be v1, v2 or both, not \"%s\"", value);
    }
    return r->port->gid_types ? 0 : config_fail(r, "has no value");
}

/* "none", "tap", "tap uroce0" */
static int read_exception(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct words w;

    config_split(&w, value);
    p->tap_name[0] = 0;
    p->tap = w.count && !strcmp(w.word[0], "tap");
    if (w.count < 1 || w.count > 1u + p->tap || (!p->tap && strcmp(w.word[0], "none")))
        return config_fail(r, "must be none, tap or tap NAME, not \"%s\"", value);
    if (w.count < 2)
        return 0;
    if (strchr(w.word[1], '/') || strchr(w.word[1], '%') || w.word[1][0] == '.')
        return config_fail(r, "has no name of an interface: \"%s\"", w.word[1]);
    return config_text(r, w.word[1], p->tap_name, sizeof(p->tap_name));
}

static int read_icrc(struct reader *r, const char *value)
{
    r->port->icrc_always = !strcmp(value, "always");
    if (r->port->icrc_always || !strcmp(value, "auto"))
        return 0;
    return config_fail(r, "must be auto or always, not \"%s\"", value);
}

/* "/tmp/port.pcap 1000" */
static int read_capture(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct words w;

    config_split(&w, value);
    if (w.count > 2)
        return config_fail(r, "must be FILE or FILE FRAMES, not \"%s\"", value);
    if (config_text(r, w.count ? w.word[0] : "", p->capture, sizeof(p->capture)))
        return -1;
    p->capture_frames = CONFIG_CAPTURE_FRAMES;
    return w.count < 2 ? 0 : config_number(r, w.word[1], 1, 1000000000, 10, &p->capture_frames);
}

/* "drop rx opcode RC_ACK chance 0.01 seed 7" */
static int read_fault(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    char error[INJECT_ERROR_MAX];
    struct inject_rule rule;

    if (p->faults == CONFIG_FAULTS_MAX)
        return config_fail(r, "is one too many: a port has at most %d rules here",
                           CONFIG_FAULTS_MAX);
    if (inject_parse(&rule, value, error))
        return config_fail(r, "is not a rule: %s", error);
    if (rule.device[0])
        return config_fail(r, "is for this port, and names the device \"%s\"", rule.device);
    strcpy(p->fault[p->faults++], value);
    return 0;
}

static int read_entropy(struct reader *r, const char *value)
{
    if (!entropy_policy_parse(&r->port->entropy, value))
        return 0;
    return config_fail(r,
                       "must be kernel, rfc, spray or fixed:PORT, PORT from %u to %u, not \"%s\"",
                       ENTROPY_PORT_MIN, UINT16_MAX, value);
}

/* The limit is the largest retry count: a higher number would mean never. */
static int read_repath(struct reader *r, const char *value)
{
    return config_number(r, value, 0, CONFIG_REPATH_MAX, 10, &r->port->repath);
}

/* Code point 0 is that of traffic of no kind: it stands for none. */
static int read_trim_dscp(struct reader *r, const char *value)
{
    if (!strcmp(value, "no")) {
        r->port->trim_dscp = 0;
        return 0;
    }
    return config_number(r, value, 1, 63, 10, &r->port->trim_dscp);
}

static int read_selective_repeat(struct reader *r, const char *value)
{
    return config_yes_no(r, value, &r->port->selective);
}

/* In 1,000,000 bits per second. */
static int read_max_rate(struct reader *r, const char *value)
{
    unsigned mbps = 0;
    int err = config_number(r, value, 1, CONFIG_MAX_RATE, 10, &mbps);

    r->port->max_rate = mbps * UINT64_C(1000000);
    return err;
}

static int read_flow_control(struct reader *r, const char *value)
{
    static const char *const name[] = {[PKTIO_PAUSE_OFF] = "off",
                                       [PKTIO_PAUSE_RX] = "rx",
                                       [PKTIO_PAUSE_TX] = "tx",
                                       [PKTIO_PAUSE_BOTH] = "both"};

    for (unsigned i = PKTIO_PAUSE_OFF; i < ARRAY_SIZE(name); i++)
        if (!strcmp(value, name[i])) {
            r->port->flow_control = (enum pktio_pause)i;
            return 0;
        }
    return config_fail(r, "must be off, rx, tx or both, not \"%s\"", value);
}

static int read_segmentation(struct reader *r, const char *value)
{
    bool yes = true;
    int err = config_yes_no(r, value, &yes);

    r->port->no_segmentation = !yes;
    r->port->has_segmentation = true;
    return err;
}

static int read_ecn(struct reader *r, const char *value)
{
    return config_yes_no(r, value, &r->port->congestion.ect);
}

/* "no", "INTERVAL" or "INTERVAL DSCP PRIORITY" */
static int read_cnp(struct reader *r, const char *value)
{
    struct congestion_config *c = &r->port->congestion;
    unsigned interval = 0, dscp = c->cnp_dscp, priority = c->cnp_pcp;
    struct words w;

    config_split(&w, value);
    if (w.count == 1 && !strcmp(w.word[0], "no")) {
        c->cnp_interval = 0;
        return 0;
    }
    if (w.count != 1 && w.count != 3)
        return config_fail(
            r, "must be \"no\", or microseconds, or these, a code point and a priority, not \"%s\"",
            value);
    if (config_number(r, w.word[0], 1, CONFIG_CNP_INTERVAL_MAX, 10, &interval))
        return -1;
    if (w.count == 3 && (config_number(r, w.word[1], 0, 63, 10, &dscp) ||
                         config_number(r, w.word[2], 0, 7, 10, &priority)))
        return -1;
    c->cnp_interval = interval * (uint32_t)NS_PER_US;
    c->cnp_dscp = (uint8_t)dscp;
    c->cnp_pcp = (uint8_t)priority;
    return 0;
}

static int no_such_controller(struct reader *r, const char *value)
{
    char names[128] = "none";

    for (unsigned i = 0; cc_at(i); i++) {
        size_t len = strlen(names);

        snprintf(names + len, sizeof(names) - len, ", %s", cc_at(i)->name);
    }
    return config_fail(r, "must begin with one of %s, not \"%s\"", names, value);
}

static int no_such_parameter(struct reader *r, const struct cc_ops *ops, const char *word)
{
    const char *is = strchr(word, '=');
    char names[512] = "";

    for (const struct cc_param *p = ops->param; p->name; p++) {
        size_t len = strlen(names);

        if (is && strlen(p->name) == (size_t)(is - word) &&
            !memcmp(p->name, word, (size_t)(is - word)))
            return config_fail(r, "%s is from %" PRIu64 " to %" PRIu64, p->name, p->least, p->most);
        snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", p->name);
    }
    return config_fail(r, "\"%s\" is not PARAMETER=NUMBER of %s (%s)", word, ops->name, names);
}

/* "none", or "ALGORITHM [MBPS] [PARAMETER=NUMBER...]" */
static int read_control(struct reader *r, const char *value)
{
    struct congestion_config *c = &r->port->congestion;
    unsigned mbps = 0, i = 1;
    struct words w;

    config_split(&w, value);
    if (w.count == 1 && !strcmp(w.word[0], "none")) {
        c->control = NULL;
        return 0;
    }
    c->control = w.count ? cc_find(w.word[0]) : NULL;
    if (!c->control)
        return no_such_controller(r, value);
    if (w.count == CONFIG_WORDS_MAX)
        return config_fail(r, "has too many words");
    if (i < w.count && !strchr(w.word[i], '=') &&
        config_number(r, w.word[i++], 1, CONFIG_MBPS_MAX, 10, &mbps))
        return -1;
    c->line = mbps * UINT64_C(1000000);
    cc_default_params(c->control, c->params);
    c->own_params = true;
    for (; i < w.count; i++)
        if (!cc_read_param(c->control, c->params, w.word[i]))
            return no_such_parameter(r, c->control, w.word[i]);
    return 0;
}

int config_port_key(struct reader *r, const char *value)
{
    static const struct {
        const char *name;
        bool numbered; /* may come several times, as name.N */
        int (*read)(struct reader *r, const char *value);
    } keys[] = {
        {"device", false, read_device},
        {"mtu", false, read_mtu},
        {"queues", false, read_queues},
        {"spread", false, read_spread},
        {"segmentation", false, read_segmentation},
        {"address", true, config_address},
        {"addresses", false, config_addresses},
        {"route", true, config_route},
        {"neighbour", true, config_neighbour},
        {"dad", false, read_dad},
        {"roce", false, read_roce},
        {"exception", false, read_exception},
        {"capture", false, read_capture},
        {"fault", true, read_fault},
        {"icrc", false, read_icrc},
        {"sl_to_pcp", false, config_sl_to_pcp},
        {"dscp", true, config_dscp},
        {"priority_to_sl", false, config_priority_to_sl},
        {"ets", false, config_ets},
        {"entropy", false, read_entropy},
        {"repath", false, read_repath},
        {"trim_dscp", false, read_trim_dscp},
        {"selective_repeat", false, read_selective_repeat},
        {"max_rate", false, read_max_rate},
        {"flow_control", false, read_flow_control},
        {"ecn", false, read_ecn},
        {"cnp", false, read_cnp},
        {"control", false, read_control},
    };
    char names[384] = "";

    for (unsigned i = 0; i < ARRAY_SIZE(keys); i++) {
        size_t len = strlen(names);

        if (keys[i].numbered ? config_key_is(r->key, keys[i].name) : !strcmp(r->key, keys[i].name))
            return keys[i].read(r, value);
        snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", keys[i].name);
    }
    return config_fail(r, "is not a key of this section (%s)", names);
}
