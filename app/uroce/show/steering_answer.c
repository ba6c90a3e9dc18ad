/* SPDX-License-Identifier: BSD-3-Clause */
/* See steering_answer.h. */
#include "steering_answer.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "number.h"

#define ROCE_PORT 4791

/* The daemon uses the same names. */
static const char *const field_name[] = {"source address", "destination address", "source port",
                                         "destination port"};

/* ---- questions ---- */

static int print_refusal(const char *text, const char *why)
{
    fprintf(stderr, "uroce: show: \"%s\" %s\n", text, why);
    return -EINVAL;
}

static int parse_number(const char *text, unsigned long max, unsigned long *out)
{
    char *end;

    errno = 0;
    *out = strtoul(text, &end, number_base(text));
    return errno || end == text || *end || text[0] == '-' || text[0] == '+' || *out > max ? -EINVAL
                                                                                          : 0;
}

/* The next word between commas, or NULL. */
static char *next_word(char **rest)
{
    return strsep(rest, ",");
}

int steering_parse_flow(struct steering_question *q, const char *text)
{
    char copy[160], *rest = copy, *src, *dst, *sport;
    struct rss_tuple t = {.dport = ROCE_PORT};
    unsigned long number;

    if (steering_is_asked(q))
        return print_refusal(text, "is a second question: one --flow or --qp at a time");
    if (strlen(text) >= sizeof(copy))
        return print_refusal(text, "is no flow: SRC,DST,SPORT");
    strcpy(copy, text);
    src = next_word(&rest);
    dst = next_word(&rest);
    sport = next_word(&rest);
    if (!sport || rest)
        return print_refusal(text, "is no flow: SRC,DST,SPORT");
    if (gid_parse(&t.src, src) || gid_parse(&t.dst, dst))
        return print_refusal(gid_parse(&t.src, src) ? src : dst, "is no IP address");
    if (gid_is_ipv4(&t.src) != gid_is_ipv4(&t.dst))
        return print_refusal(text, "has addresses of two IP versions");
    if (parse_number(sport, 65535, &number))
        return print_refusal(sport, "is no UDP source port (0 to 65535)");
    t.sport = (uint16_t)number;
    q->flow = t;
    q->by = STEERING_BY_FLOW;
    return 0;
}

int steering_parse_qp(struct steering_question *q, const char *text)
{
    unsigned long number;

    if (steering_is_asked(q))
        return print_refusal(text, "is a second question: one --flow or --qp at a time");
    if (parse_number(text, 0xFFFFFF, &number))
        return print_refusal(text, "is no queue pair number (0 to 0xffffff)");
    q->qpn = (uint32_t)number;
    q->by = STEERING_BY_QP;
    return 0;
}

/* ---- what the daemon says ---- */

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

static bool read_key(const json_t *rss, uint8_t key[TOEPLITZ_KEY_LEN])
{
    const char *text = text_of(rss, "key");
    unsigned byte;

    if (strlen(text) != 2 * TOEPLITZ_KEY_LEN)
        return false;
    for (unsigned i = 0; i < TOEPLITZ_KEY_LEN; i++) {
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        key[i] = (uint8_t)byte;
    }
    return true;
}

static unsigned read_fields(const json_t *rss)
{
    unsigned fields = 0;
    json_t *name;
    size_t i;

    json_array_foreach(json_object_get(rss, "fields"), i, name)
    {
        for (unsigned k = 0; k < ARRAY_SIZE(field_name); k++)
            if (json_is_string(name) && !strcmp(json_string_value(name), field_name[k]))
                fields |= 1u << k;
    }
    return fields;
}

static bool read_table(const json_t *rss, struct indirection *t)
{
    const json_t *list = json_object_get(rss, "table");
    size_t n = json_array_size(list);

    if (!n || n > INDIRECTION_MAX || (n & (n - 1)))
        return false;
    t->size = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        json_int_t v = json_integer_value(json_array_get(list, i));

        if (v < 0 || v > UINT16_MAX)
            return false;
        t->queue[i] = (uint16_t)v;
    }
    return true;
}

/* False if the daemon does not know how the port spreads packets of that IP version. */
static bool read_rss(const json_t *steering, bool ipv6, struct rss *rss)
{
    const json_t *o = json_object_get(steering, ipv6 ? "rss_ipv6" : "rss_ipv4");
    uint8_t key[TOEPLITZ_KEY_LEN];

    if (!o)
        return false;
    if (!strcmp(text_of(o, "hash"), "xor"))
        rss_init_xor(rss, read_fields(o));
    else if (read_key(o, key))
        rss_init_toeplitz(rss, key, read_fields(o));
    else
        return false;
    return read_table(o, &rss->table);
}

/* The worker that has the queue, or -1. */
static json_int_t worker_of(const json_t *steering, json_int_t queue)
{
    json_t *part;
    size_t i;

    json_array_foreach(json_object_get(steering, "workers"), i, part)
    {
        if (json_integer_value(json_object_get(part, "queue")) == queue)
            return json_integer_value(json_object_get(part, "worker"));
    }
    return -1;
}

static bool has_address(const json_t *port, const union gid *gid)
{
    json_t *entry;
    union gid own;
    size_t i;

    json_array_foreach(json_object_get(port, "gids"), i, entry)
    {
        if (!gid_parse(&own, text_of(entry, "address")) && gid_eq(&own, gid))
            return true;
    }
    return false;
}

/* ---- answers ---- */

static void set_integer(json_t *o, const char *name, json_int_t v)
{
    json_object_set_new(o, name, json_integer(v));
}

__attribute__((format(printf, 3, 4))) static void set_text(json_t *o, const char *name,
                                                           const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_object_set_new(o, name, json_string(text));
}

static void set_queue(json_t *answer, const json_t *steering, json_int_t queue)
{
    set_integer(answer, "queue", queue);
    set_integer(answer, "worker", worker_of(steering, queue));
}

static void add_flow(json_t *answer, const struct rss_tuple *t)
{
    char src[46], dst[46];

    gid_format(src, &t->src);
    gid_format(dst, &t->dst);
    json_object_set_new(answer, "src", json_string(src));
    json_object_set_new(answer, "dst", json_string(dst));
    set_integer(answer, "sport", t->sport);
}

static void add_hash(json_t *answer, const json_t *steering, const struct rss_tuple *t,
                     const struct rss *rss)
{
    const json_t *o = json_object_get(steering, rss_is_ipv4(t) ? "rss_ipv4" : "rss_ipv6");
    uint32_t hash = rss_hash(rss, t), index = hash & (rss->table.size - 1);
    char hex[2 * RSS_INPUT_MAX + 1] = "";
    uint8_t input[RSS_INPUT_MAX];
    unsigned n = rss_input(input, t, rss->fields);

    for (unsigned i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", input[i]);
    json_object_set_new(answer, "input", json_string(hex));
    json_object_set(answer, "fields", json_object_get(o, "fields"));
    json_object_set(answer, "function", json_object_get(o, "hash"));
    set_text(answer, "hash", "0x%08x", hash);
    set_integer(answer, "index", index);
    set_integer(answer, "table_size", rss->table.size);
    set_queue(answer, steering, rss->table.queue[index]);
}

/* A flow rule has precedence over the hash. A rule by number matches the packets of one queue pair
 * only; a flow may carry packets of many queue pairs. */
static void add_rules(json_t *answer, const json_t *steering, const struct rss_tuple *t,
                      const json_t *qps)
{
    json_t *numbers = json_array(), *qp;
    size_t i;

    json_array_foreach(qps, i, qp)
    {
        const char *rule = text_of(qp, "flow_rule");
        union gid peer, own;

        if (!*rule || gid_parse(&peer, text_of(qp, "dgid")) || gid_parse(&own, text_of(qp, "sgid")))
            continue;
        if (!gid_eq(&peer, &t->src) || !gid_eq(&own, &t->dst))
            continue;
        if (!strcmp(rule, "number")) {
            json_array_append(numbers, json_object_get(qp, "qpn"));
        } else if (json_integer_value(json_object_get(qp, "flow_rule_sport")) == t->sport) {
            json_object_set(answer, "rule_of_qp", json_object_get(qp, "qpn"));
            set_queue(answer, steering, json_integer_value(json_object_get(qp, "queue")));
        }
    }
    if (json_array_size(numbers))
        json_object_set(answer, "rules_by_number", numbers);
    json_decref(numbers);
}

static void add_queue(json_t *answer, const json_t *steering, const struct rss_tuple *t)
{
    struct rss *rss = malloc(sizeof(*rss));

    if (json_array_size(json_object_get(steering, "workers")) < 2)
        set_queue(answer, steering, 0);
    else if (rss && read_rss(steering, !rss_is_ipv4(t), rss))
        add_hash(answer, steering, t, rss);
    free(rss);
}

static json_t *answer_flow(const struct rss_tuple *t, const json_t *steering, const json_t *qps)
{
    json_t *answer = json_object();

    add_flow(answer, t);
    add_queue(answer, steering, t);
    add_rules(answer, steering, t, qps);
    return answer;
}

/* Why the queue pair has no predictable flow. */
static const char *without_flow(const json_t *qp, const json_t *port)
{
    union gid peer;

    if (!strcmp(text_of(qp, "type"), "UD") || !strcmp(text_of(qp, "type"), "RAW_PACKET"))
        return "it has no peer: any host may send to it";
    if (!json_object_get(qp, "dgid"))
        return "it is not connected";
    if (!gid_parse(&peer, text_of(qp, "dgid")) && has_address(port, &peer))
        return "its peer is on the same port: packets arrive on the queue of the worker that "
               "sends them";
    return "its packets are not RoCEv2";
}

static void add_qp_queue(json_t *answer, const json_t *qp, const json_t *steering,
                         const json_t *port)
{
    json_int_t sport = json_integer_value(json_object_get(qp, "peer_sport"));
    struct rss_tuple t = {.dport = ROCE_PORT, .sport = (uint16_t)sport};

    if (json_array_size(json_object_get(steering, "workers")) < 2) {
        set_queue(answer, steering, 0);
    } else if (!sport || gid_parse(&t.src, text_of(qp, "dgid")) ||
               gid_parse(&t.dst, text_of(qp, "sgid"))) {
        json_object_set_new(answer, "without_flow", json_string(without_flow(qp, port)));
    } else {
        add_flow(answer, &t);
        add_queue(answer, steering, &t);
    }
    if (json_object_get(qp, "flow_rule")) {
        json_object_set(answer, "rule_of_qp", json_object_get(qp, "qpn"));
        json_object_set(answer, "queue", json_object_get(qp, "queue"));
        json_object_set(answer, "worker", json_object_get(qp, "worker"));
    }
}

static json_t *answer_qp(const json_t *qp, const json_t *steering, const json_t *port)
{
    json_t *answer = json_object(), *queue;

    json_object_set(answer, "qpn", json_object_get(qp, "qpn"));
    json_object_set(answer, "type", json_object_get(qp, "type"));
    json_object_set(answer, "lives_on_worker", json_object_get(qp, "worker"));
    json_object_set(answer, "lives_on_queue", json_object_get(qp, "queue"));
    json_object_set(answer, "steering", json_object_get(qp, "steering"));
    add_qp_queue(answer, qp, steering, port);
    queue = json_object_get(answer, "queue");
    if (queue)
        json_object_set_new(answer, "lives_there",
                            json_boolean(json_equal(queue, json_object_get(qp, "queue"))));
    return answer;
}

json_t *steering_answer(const struct steering_question *q, const json_t *port, const json_t *qps)
{
    const json_t *steering = json_object_get(port, "steering");
    json_t *answers = json_array(), *qp;
    size_t i;

    if (q->by == STEERING_BY_FLOW && (q->device || has_address(port, &q->flow.dst)))
        json_array_append_new(answers, answer_flow(&q->flow, steering, qps));
    json_array_foreach(qps, i, qp)
    {
        if (q->by == STEERING_BY_QP && json_integer_value(json_object_get(qp, "qpn")) == q->qpn)
            json_array_append_new(answers, answer_qp(qp, steering, port));
    }
    return answers;
}

/* ---- as text ---- */

static void append_text(char *out, size_t size, const char *separator, const char *text)
{
    size_t used = strlen(out);

    snprintf(out + used, size - used, "%s%s", used ? separator : "", text);
}

void steering_describe_fields(const json_t *rss, char *out, size_t size)
{
    json_t *name;
    size_t i;

    *out = '\0';
    json_array_foreach(json_object_get(rss, "fields"), i, name)
        append_text(out, size, ", ", json_string_value(name) ? json_string_value(name) : "?");
}

void steering_describe_table(const json_t *rss, char *out, size_t size)
{
    struct indirection t;
    uint32_t queues = 0;
    char word[40];

    snprintf(out, size, "unreadable");
    if (!read_table(rss, &t))
        return;
    for (uint32_t i = 0; i < t.size; i++)
        queues = max_of(queues, t.queue[i] + 1u);
    snprintf(out, size, "%u entries:", t.size);
    for (uint32_t i = 0; i < min_of(queues, 16u); i++) {
        snprintf(word, sizeof(word), "%u", indirection_share(&t, (uint16_t)i));
        append_text(out, size, " ", word);
    }
}
