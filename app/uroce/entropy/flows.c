/* SPDX-License-Identifier: BSD-3-Clause */
/* The flows: pairs of QPNs from ranges, random numbers, files or the running daemon. See spread.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"
#include "random.h"
#include "spread.h"

#define QPN_MAX        0xFFFFFFu
#define QPN_RANDOM_MIN 0x10u
#define QPN_RANDOM_MAX 0xFFFFFEu /* 0xFFFFFF is the multicast QPN */
#define LINE_WORDS     4
#define LINE_MAX_LEN   256

static int add_flow(struct flows *f, const struct flow *flow, char error[SPREAD_ERROR_MAX])
{
    if (f->count == SPREAD_FLOWS_MAX) {
        snprintf(error, SPREAD_ERROR_MAX, "more than %u flows", SPREAD_FLOWS_MAX);
        return -EINVAL;
    }
    if (f->count == f->room) {
        unsigned room = f->room ? 2 * f->room : 256;
        struct flow *more = realloc(f->flow, room * sizeof(*more));

        if (!more) {
            snprintf(error, SPREAD_ERROR_MAX, "%s", strerror(ENOMEM));
            return -ENOMEM;
        }
        f->flow = more;
        f->room = room;
    }
    f->flow[f->count++] = *flow;
    return 0;
}

void flows_free(struct flows *f)
{
    free(f->flow);
    *f = (struct flows){0};
}

/* Reads a number up to max at *text, decimal or 0x, and moves *text behind it. */
static bool read_number(const char **text, uint32_t max, uint32_t *out)
{
    const char *start = *text;
    unsigned long v;
    char *end;

    if (*start < '0' || *start > '9')
        return false;
    errno = 0;
    v = strtoul(start, &end, strncmp(start, "0x", 2) == 0 ? 16 : 10);
    if (errno || v > max)
        return false;
    *out = (uint32_t)v;
    *text = end;
    return true;
}

/* ---- ranges ---- */

struct range {
    uint32_t first, last, step;
};

/* Reads "A", "A-B" or "A-B/STEP". */
static bool read_range(const char **text, struct range *r)
{
    if (!read_number(text, QPN_MAX, &r->first))
        return false;
    r->last = r->first;
    r->step = 1;
    if (**text == '-') {
        ++*text;
        if (!read_number(text, QPN_MAX, &r->last))
            return false;
    }
    if (**text == '/') {
        ++*text;
        if (!read_number(text, QPN_MAX, &r->step))
            return false;
    }
    return r->last >= r->first && r->step;
}

static uint32_t range_count(const struct range *r)
{
    return (r->last - r->first) / r->step + 1;
}

int flows_add_range(struct flows *f, const char *text, const union gid *src, const union gid *dst,
                    char error[SPREAD_ERROR_MAX])
{
    struct flow flow = {.src = *src, .dst = *dst};
    const char *at = text;
    struct range s, d;
    uint32_t n;
    int err = 0;

    if (!read_range(&at, &s) || *at++ != ':' || !read_range(&at, &d) || *at) {
        snprintf(error, SPREAD_ERROR_MAX,
                 "\"%.64s\" is not A[-B[/STEP]]:C[-D[/STEP]] with QPNs up to 0xFFFFFF", text);
        return -EINVAL;
    }
    n = range_count(&s) > 1 ? range_count(&s) : range_count(&d);
    if (range_count(&d) != n && range_count(&d) > 1) {
        snprintf(error, SPREAD_ERROR_MAX, "\"%.64s\": %u source QPNs and %u destination QPNs", text,
                 range_count(&s), range_count(&d));
        return -EINVAL;
    }
    for (uint32_t i = 0; i < n && !err; i++) {
        flow.src_qpn = range_count(&s) > 1 ? s.first + i * s.step : s.first;
        flow.dest_qpn = range_count(&d) > 1 ? d.first + i * d.step : d.first;
        err = add_flow(f, &flow, error);
    }
    return err;
}

/* ---- random ---- */

int flows_add_random(struct flows *f, unsigned n, uint64_t seed, const union gid *src,
                     const union gid *dst, char error[SPREAD_ERROR_MAX])
{
    struct flow flow = {.src = *src, .dst = *dst};
    struct random r = {seed};
    int err = 0;

    for (unsigned i = 0; i < n && !err; i++) {
        flow.src_qpn = QPN_RANDOM_MIN + random_below(&r, QPN_RANDOM_MAX - QPN_RANDOM_MIN + 1);
        flow.dest_qpn = QPN_RANDOM_MIN + random_below(&r, QPN_RANDOM_MAX - QPN_RANDOM_MIN + 1);
        err = add_flow(f, &flow, error);
    }
    return err;
}

/* ---- a file ---- */

static bool parse_qpn(const char *word, uint32_t *qpn)
{
    return read_number(&word, QPN_MAX, qpn) && !*word;
}

/* Splits a line at blanks, into at most LINE_WORDS + 1 words. */
static unsigned split_line(char *line, char *word[LINE_WORDS + 1])
{
    unsigned n = 0;
    char *rest, *next;

    for (next = strtok_r(line, " \t\r\n", &rest); next && n <= LINE_WORDS;
         next = strtok_r(NULL, " \t\r\n", &rest))
        word[n++] = next;
    return n;
}

/* The error in a line's words, or NULL. */
static const char *parse_words(struct flow *flow, char *const *word, unsigned n)
{
    if (n != 2 && n != LINE_WORDS)
        return "not SRC_QPN DEST_QPN [SRC_ADDRESS DEST_ADDRESS]";
    if (!parse_qpn(word[0], &flow->src_qpn) || !parse_qpn(word[1], &flow->dest_qpn))
        return "a QPN is a number from 0 to 0xFFFFFF";
    if (n == LINE_WORDS && (gid_parse(&flow->src, word[2]) || gid_parse(&flow->dst, word[3])))
        return "not an IPv4 or IPv6 address";
    if (n == LINE_WORDS && gid_is_ipv4(&flow->src) != gid_is_ipv4(&flow->dst))
        return "one address is IPv4, the other IPv6";
    return NULL;
}

static int add_line(struct flows *f, char *line, const struct flow *flow,
                    char error[SPREAD_ERROR_MAX])
{
    char *word[LINE_WORDS + 1];
    struct flow copy = *flow;
    const char *wrong;
    unsigned n;

    line[strcspn(line, "#")] = '\0';
    n = split_line(line, word);
    if (!n)
        return 0;
    wrong = parse_words(&copy, word, n);
    if (wrong) {
        snprintf(error, SPREAD_ERROR_MAX, "%s", wrong);
        return -EINVAL;
    }
    return add_flow(f, &copy, error);
}

/* Reads a line without its end. 1; 0: end of the file; -EINVAL: no line of text; -EIO. */
static int read_line(FILE *in, char line[LINE_MAX_LEN], char error[SPREAD_ERROR_MAX])
{
    unsigned len = 0;
    int c;

    errno = 0;
    while ((c = getc(in)) != EOF && c != '\n') {
        if (!c || len + 1 == LINE_MAX_LEN) {
            snprintf(error, SPREAD_ERROR_MAX, c ? "longer than %d characters" : "a zero byte",
                     LINE_MAX_LEN - 1);
            return -EINVAL;
        }
        line[len++] = (char)c;
    }
    line[len] = '\0';
    if (c == EOF && ferror(in)) {
        snprintf(error, SPREAD_ERROR_MAX, "%s", strerror(errno ? errno : EIO));
        return -EIO;
    }
    return c != EOF || len;
}

int flows_add_lines(struct flows *f, FILE *in, const union gid *src, const union gid *dst,
                    char error[SPREAD_ERROR_MAX])
{
    const struct flow flow = {.src = *src, .dst = *dst};
    char line[LINE_MAX_LEN], why[SPREAD_ERROR_MAX - 32];
    unsigned number = 1;
    int err;

    while ((err = read_line(in, line, error)) > 0) {
        bool has_mark = number == 1 && !strncmp(line, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK));

        err = add_line(f, line + (has_mark ? strlen(BYTE_ORDER_MARK) : 0), &flow, error);
        if (err)
            break;
        number++;
    }
    if (err && err != -EIO) {
        snprintf(why, sizeof(why), "%s", error);
        snprintf(error, SPREAD_ERROR_MAX, "line %u: %s", number, why);
    }
    return err;
}

/* ---- the daemon's ---- */

/* The flow of a queue pair with a known peer at an IP address. */
static bool shown_flow(struct flow *flow, const json_t *qp)
{
    const char *src = json_string_value(json_object_get(qp, "sgid"));
    const char *dst = json_string_value(json_object_get(qp, "dgid"));
    json_int_t qpn = json_integer_value(json_object_get(qp, "qpn"));
    json_int_t peer = json_integer_value(json_object_get(qp, "dest_qpn"));

    if (!src || !dst || gid_parse(&flow->src, src) || gid_parse(&flow->dst, dst) || qpn <= 0 ||
        qpn > QPN_MAX || peer <= 0 || peer > QPN_MAX)
        return false;
    flow->src_qpn = (uint32_t)qpn;
    flow->dest_qpn = (uint32_t)peer;
    return !gid_is_zero(&flow->dst);
}

int flows_add_shown(struct flows *f, const json_t *qps, char error[SPREAD_ERROR_MAX])
{
    int err = 0, others = 0;
    const json_t *qp;
    size_t i;

    json_array_foreach(qps, i, qp)
    {
        struct flow flow;

        if (!shown_flow(&flow, qp))
            others++;
        else if ((err = add_flow(f, &flow, error)))
            return err;
    }
    return others;
}
