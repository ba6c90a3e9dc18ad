/* SPDX-License-Identifier: BSD-3-Clause */
/* What a replay found, as text for people or as one JSON object. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"
#include "replay.h"

const char *replay_diff_name(enum replay_diff diff)
{
    static const char *const names[] = {
#define X(name, help) #name,
        REPLAY_DIFFS(X)
#undef X
    };

    return names[diff];
}

const char *replay_diff_help(enum replay_diff diff)
{
    static const char *const helps[] = {
#define X(name, help) help,
        REPLAY_DIFFS(X)
#undef X
    };

    return helps[diff];
}

/* ---- frames as text ---- */

static char *hex_of(const uint8_t *data, uint32_t len)
{
    char *text = replay_grow(NULL, 2 * (size_t)len + 1);

    for (uint32_t i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", data[i]);
    text[2 * (size_t)len] = '\0';
    return text;
}

static void packet_text(char *out, size_t size, const struct encap_view *v, const struct pkt *p)
{
    char src[46], dst[46];
    int n;

    gid_format(src, &v->sgid);
    gid_format(dst, &v->dgid);
    n = snprintf(out, size, "%s > %s sport %u ", src, dst, v->udp_sport);
    if (n >= 0 && (size_t)n < size)
        pkt_format(out + n, size - (size_t)n, p);
}

static void print_hex(const uint8_t *data, uint32_t len)
{
    for (uint32_t i = 0; i < len; i += 32) {
        printf("      %04x ", i);
        for (uint32_t k = i; k < len && k < i + 32; k++)
            printf("%s%02x", k % 4 ? "" : " ", data[k]);
        putchar('\n');
    }
}

static void print_frames(const struct finding *f)
{
    char text[768];

    if (f->rec != NULL) {
        packet_text(text, sizeof(text), &f->rec->view, &f->rec->pkt);
        printf("    recorded: %s\n", text);
        print_hex(f->rec->data, f->rec->len);
    }
    if (f->sent != NULL) {
        if (f->sent->sound)
            packet_text(text, sizeof(text), &f->sent->view, &f->sent->pkt);
        printf("    ours:     %s\n", f->sent->sound ? text : "(unsound)");
        print_hex(f->sent->data, f->sent->len);
    }
}

/* The number of the frame that identifies a finding: the recorded frame's, or that of the last
 * recorded frame before the engine's. */
static unsigned frame_of(const struct run *r, const struct finding *f)
{
    if (f->rec != NULL)
        return f->rec->number;
    return f->sent != NULL ? r->capture->rec[f->sent->after].number : 0;
}

static void fields_text(char *out, size_t size, uint64_t fields)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < FIELD_COUNT; i++)
        if ((fields & (UINT64_C(1) << i)) && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "",
                                     replay_field_name(i));
}

/* ---- text ---- */

static void print_difference(const struct run *r, const struct finding *f)
{
    char fields[256];

    fields_text(fields, sizeof(fields), f->fields);
    printf("  frame %u: %s%s%s%s%s\n", frame_of(r, f), replay_diff_help(f->diff),
           fields[0] ? ": " : "", fields, f->text[0] ? ": " : "", f->text);
    print_frames(f);
}

static void print_allowed(const struct report *p, const struct run *r)
{
    for (unsigned rule = 0; rule < replay_rule_count; rule++) {
        unsigned n = 0;

        for (unsigned i = 0; i < r->findings; i++)
            n += r->finding[i].rule == (int)rule;
        if (n == 0)
            continue;
        printf("  allowed: %u %s (%s): %s; frames", n, replay_rules[rule].name,
               replay_rules[rule].clause, replay_rules[rule].text);
        for (unsigned i = 0, shown = 0; i < r->findings; i++) {
            if (r->finding[i].rule != (int)rule)
                continue;
            if (!p->verbose && shown++ == 16) {
                printf(" ...");
                break;
            }
            printf(" %u", frame_of(r, &r->finding[i]));
        }
        putchar('\n');
        for (unsigned i = 0; p->verbose && i < r->findings; i++)
            if (r->finding[i].rule == (int)rule)
                print_difference(r, &r->finding[i]);
    }
}

static void print_unused(const unsigned *unused)
{
    for (unsigned i = USE_replay + 1; i < USE_COUNT; i++)
        if (unused[i])
            printf("  not replayed: %u %s: %s\n", unused[i], replay_use_name(i),
                   replay_use_help(i));
}

static unsigned count_differences(const struct run *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->findings; i++)
        n += r->finding[i].rule < 0;
    return n;
}

static void print_run(const struct report *p, const struct run *r)
{
    char us[46], peer[46];

    gid_format(us, &r->conversation->addr[r->side]);
    gid_format(peer, &r->conversation->addr[!r->side]);
    printf("side %c, %s (with %s): ", 'A' + (char)r->side, us, peer);
    if (r->failed) {
        printf("not replayed: %s\n", r->failed);
        return;
    }
    printf("%u frames fed, %u requests posted, %u frames sent; %u compared, %u the same, "
           "%u effects checked, %u differences\n",
           r->fed, r->posted, r->sents, r->compared, r->identical, r->effects,
           count_differences(r));
    if (r->lost)
        printf("  %u sent that the capture lost\n", r->lost);
    print_unused(r->unused);
    print_allowed(p, r);
    for (unsigned i = 0; i < r->findings; i++)
        if (r->finding[i].rule < 0)
            print_difference(r, &r->finding[i]);
}

/* ---- JSON ---- */

static json_t *frame_json(const struct encap_view *v, const struct pkt *p, const uint8_t *data,
                          uint32_t len, bool sound)
{
    char text[768] = "";
    char *hex = hex_of(data, len);
    json_t *object;

    if (sound)
        packet_text(text, sizeof(text), v, p);
    object = json_pack("{s:s, s:s}", "text", text, "hex", hex);
    free(hex);
    return object;
}

static json_t *finding_json(const struct run *r, const struct finding *f)
{
    json_t *object =
        json_pack("{s:s, s:i}", "kind", replay_diff_name(f->diff), "frame", (int)frame_of(r, f));
    char fields[256];

    fields_text(fields, sizeof(fields), f->fields);
    if (fields[0])
        json_object_set_new(object, "fields", json_string(fields));
    if (f->text[0])
        json_object_set_new(object, "text", json_string(f->text));
    if (f->rec != NULL)
        json_object_set_new(
            object, "recorded",
            frame_json(&f->rec->view, &f->rec->pkt, f->rec->data, f->rec->len, true));
    if (f->sent != NULL)
        json_object_set_new(
            object, "ours",
            frame_json(&f->sent->view, &f->sent->pkt, f->sent->data, f->sent->len, f->sent->sound));
    return object;
}

static json_t *allowed_json(const struct run *r)
{
    json_t *rules = json_array();

    for (unsigned rule = 0; rule < replay_rule_count; rule++) {
        json_t *frames = json_array();

        for (unsigned i = 0; i < r->findings; i++)
            if (r->finding[i].rule == (int)rule)
                json_array_append_new(frames, json_integer(frame_of(r, &r->finding[i])));
        if (json_array_size(frames))
            json_array_append_new(rules,
                                  json_pack("{s:s, s:s, s:s, s:O}", "rule", replay_rules[rule].name,
                                            "clause", replay_rules[rule].clause, "text",
                                            replay_rules[rule].text, "frames", frames));
        json_decref(frames);
    }
    return rules;
}

static json_t *unused_json(const unsigned *unused)
{
    json_t *object = json_object();

    for (unsigned i = USE_replay + 1; i < USE_COUNT; i++)
        if (unused[i])
            json_object_set_new(object, replay_use_name(i), json_integer(unused[i]));
    return object;
}

static void add_run(struct report *p, const struct run *r)
{
    char us[46], peer[46], side[2] = {(char)('A' + r->side), '\0'};
    json_t *differences = json_array();

    gid_format(us, &r->conversation->addr[r->side]);
    gid_format(peer, &r->conversation->addr[!r->side]);
    for (unsigned i = 0; i < r->findings; i++)
        if (r->finding[i].rule < 0)
            json_array_append_new(differences, finding_json(r, &r->finding[i]));
    json_array_append_new(
        p->runs,
        json_pack("{s:s, s:s, s:s, s:s?, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "side",
                  side, "address", us, "peer", peer, "failed", r->failed, "fed", (int)r->fed,
                  "posted", (int)r->posted, "sent", (int)r->sents, "compared", (int)r->compared,
                  "same", (int)r->identical, "effects", (int)r->effects, "lost", (int)r->lost,
                  "not_replayed", unused_json(r->unused), "allowed", allowed_json(r), "differences",
                  differences));
}

/* ---- both ---- */

static void count_unused(const struct capture *c, unsigned unused[USE_COUNT])
{
    for (unsigned i = 0; i < c->count; i++)
        unused[c->rec[i].use]++;
}

void report_begin(struct report *p, const struct capture *c)
{
    unsigned unused[USE_COUNT] = {0};

    count_unused(c, unused);
    if (p->json) {
        p->runs = json_array();
        return;
    }
    printf("%s: %u frames, %u replayed, %u conversations\n", p->file, c->count, unused[USE_replay],
           c->conversations);
    print_unused(unused);
}

void report_run(struct report *p, const struct run *r)
{
    p->differences += count_differences(r);
    if (p->json)
        add_run(p, r);
    else
        print_run(p, r);
}

/* A file's name has any bytes, and JSON has UTF-8. */
static json_t *file_json(const char *name)
{
    size_t room = PRINTABLE_GROWTH * strlen(name) + 1;
    char *text = replay_grow(NULL, room);
    json_t *value;

    printable(text, room, name);
    value = json_string(text);
    free(text);
    return value;
}

void report_end(struct report *p, const struct capture *c)
{
    unsigned unused[USE_COUNT] = {0};
    json_t *object;

    if (!p->json)
        return;
    count_unused(c, unused);
    object = json_pack("{s:o, s:i, s:i, s:i, s:i, s:o, s:o}", "file", file_json(p->file), "frames",
                       (int)c->count, "replayed", (int)unused[USE_replay], "conversations",
                       (int)c->conversations, "differences", (int)p->differences, "not_replayed",
                       unused_json(unused), "runs", p->runs);
    if (object != NULL) {
        json_dumpf(object, stdout, JSON_INDENT(1));
        putchar('\n');
    }
    json_decref(object);
}
