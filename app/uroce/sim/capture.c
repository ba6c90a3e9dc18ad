/* SPDX-License-Identifier: BSD-3-Clause */
/* A pcap file for each link, with times in nanoseconds from the beginning. See sim.h. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* The format's header, in the byte order of the machine that writes. */
struct file_header {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, accuracy, snaplen, linktype;
};
#define PCAP_NANOSECONDS UINT32_C(0xa1b23c4d)
#define PCAP_ETHERNET    1

struct record_header {
    uint32_t seconds, nanoseconds, captured, len;
};

struct capture {
    const struct lab_spec *spec;
    const char *folder;
    FILE *file[]; /* by link; NULL: not captured */
};

static void file_name(const struct lab_spec *spec, unsigned link, char out[SIM_LINK_NAME + 8])
{
    char name[SIM_LINK_NAME];

    sim_link_name(spec, link, name);
    snprintf(out, SIM_LINK_NAME + 8, "%s.pcap", name);
}

static bool matches_some(const struct lab_spec *spec, const char *pattern)
{
    char name[SIM_LINK_NAME];

    for (unsigned i = 0; i < spec->links; i++) {
        sim_link_name(spec, i, name);
        if (lab_name_matches(name, pattern))
            return true;
    }
    return false;
}

/* A pattern without a link is a mistake: its capture would be missed after the run. */
static bool patterns_match(const struct lab_spec *spec, const struct sim_arguments *a)
{
    for (unsigned i = 0; i < a->links; i++)
        if (!matches_some(spec, a->link[i])) {
            fprintf(stderr, "uroce sim: --link: no link is called \"%s\"\n", a->link[i]);
            return false;
        }
    return true;
}

static bool is_wanted(const struct lab_spec *spec, const struct sim_arguments *a, unsigned link)
{
    char name[SIM_LINK_NAME];

    sim_link_name(spec, link, name);
    for (unsigned i = 0; i < a->links; i++)
        if (lab_name_matches(name, a->link[i]))
            return true;
    return !a->links;
}

static bool has_name(const struct lab_spec *spec, unsigned link, const char *name)
{
    const struct lab_link *l = &spec->link[link];
    size_t length = strlen(spec->node[l->a].name);

    return !strncmp(name, spec->node[l->a].name, length) && name[length] == '-' &&
           !strcmp(name + length + 1, spec->node[l->b].name);
}

/* Links of one name are in one file: those of the same two nodes; or of a-b and c, and of a and
 * b-c. */
static FILE *same_file(const struct capture *c, unsigned link)
{
    char name[SIM_LINK_NAME];

    sim_link_name(c->spec, link, name);
    for (unsigned i = 0; i < link; i++)
        if (has_name(c->spec, i, name))
            return c->file[i];
    return NULL;
}

static bool open_file(struct capture *c, unsigned link)
{
    static const struct file_header header = {PCAP_NANOSECONDS, 2, 4, 0, 0, 65535, PCAP_ETHERNET};
    char name[SIM_LINK_NAME + 8];

    c->file[link] = same_file(c, link);
    if (c->file[link])
        return true;
    file_name(c->spec, link, name);
    c->file[link] = sim_open(c->folder, name);
    return c->file[link] && fwrite(&header, sizeof(header), 1, c->file[link]) == 1;
}

struct capture *sim_capture_open(const struct lab_spec *spec, const struct sim_arguments *a)
{
    struct capture *c;

    if (!patterns_match(spec, a))
        return NULL;
    c = calloc(1, sizeof(*c) + spec->links * sizeof(c->file[0]));
    if (!c) {
        fputs("uroce sim: out of memory\n", stderr);
        return NULL;
    }
    c->spec = spec;
    c->folder = a->pcap;
    for (unsigned i = 0; i < spec->links; i++)
        if (is_wanted(spec, a, i) && !open_file(c, i)) {
            sim_capture_close(c);
            return NULL;
        }
    return c;
}

void sim_capture_frame(struct capture *c, unsigned port, const uint8_t *data, uint32_t len,
                       ns_t now)
{
    struct record_header header = {(uint32_t)(now / NS_PER_SEC), (uint32_t)(now % NS_PER_SEC), len,
                                   len};
    FILE *f = c->file[port / 2];

    if (!f)
        return;
    fwrite(&header, sizeof(header), 1, f);
    fwrite(data, 1, len, f);
}

bool sim_capture_close(struct capture *c)
{
    bool good = true;

    for (unsigned i = 0; i < c->spec->links; i++) {
        char name[SIM_LINK_NAME + 8];

        FILE *f = c->file[i];

        if (!f)
            continue;
        for (unsigned j = i; j < c->spec->links; j++)
            if (c->file[j] == f)
                c->file[j] = NULL;
        file_name(c->spec, i, name);
        good &= sim_close(f, c->folder, name);
    }
    free(c);
    return good;
}
