/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <errno.h>
#include <rte_cfgfile.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 512

struct reader {
    struct uroced_config *config;
    struct uroced_port *port; /* of the section being read */
    const char *file, *section, *key;
    char *error;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int fail(struct reader *r, const char *format, ...)
{
    va_list args;
    int n = snprintf(r->error, r->size, "%s:%s%s%s%s%s ", r->file, r->section ? " [" : "",
                     r->section ? r->section : "", r->section ? "]" : "",
                     r->section && r->key ? " " : "", r->section && r->key ? r->key : "");

    va_start(args, format);
    if (n >= 0 && (size_t)n < r->size)
        vsnprintf(r->error + n, r->size - (size_t)n, format, args);
    va_end(args);
    return -1;
}

/* ---- values ---- */

static int parse_number(struct reader *r, const char *text, unsigned min, unsigned max, int base,
                        unsigned *out)
{
    unsigned long v;
    char *end;

    errno = 0;
    v = strtoul(text, &end, base);
    if (errno || end == text || *end || text[0] == '-' || v < min || v > max) {
        if (base == 8)
            return fail(r, "must be octal permissions, not \"%s\"", text);
        return fail(r, "must be a number from %u to %u, not \"%s\"", min, max, text);
    }
    *out = (unsigned)v;
    return 0;
}

static int parse_mac(const char *text, uint8_t mac[6])
{
    unsigned b[6];
    int end = 0;

    if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &end) !=
            6 ||
        text[end])
        return -1;
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)b[i];
    return mac[0] & 1 ? -1 : 0;
}

/* "10.0.0.1/24"; without a prefix the address stands alone. */
static int read_address(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct port_address *a = &p->address[p->addresses];
    char text[64];
    const char *slash = strchr(value, '/');
    unsigned bits, prefix;

    if (p->addresses == GID_TABLE_MAX)
        return fail(r, "is one too many: a port has at most %d addresses", GID_TABLE_MAX);
    snprintf(text, sizeof(text), "%.*s", slash ? (int)(slash - value) : (int)strlen(value), value);
    if (gid_parse(&a->gid, text) || gid_is_zero(&a->gid) || gid_is_multicast(&a->gid))
        return fail(r, "must be an address of a host, as 10.0.0.1/24 or fd00::1/64, not \"%s\"",
                    value);
    bits = gid_is_ipv4(&a->gid) ? 32 : 128;
    prefix = bits;
    if (slash && parse_number(r, slash + 1, 0, bits, 10, &prefix))
        return -1;
    for (unsigned i = 0; i < p->addresses; i++) {
        if (gid_eq(&p->address[i].gid, &a->gid))
            return fail(r, "repeats the address %s", text);
    }
    a->prefix = (uint8_t)prefix;
    a->vlan = VLAN_NONE;
    p->addresses++;
    return 0;
}

/* "10.0.0.2 02:00:00:00:00:02" */
static int read_neighbour(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    struct port_neighbour *n = &p->neighbour[p->neighbours];
    size_t len = strcspn(value, " \t");
    const char *mac = value + len + strspn(value + len, " \t");
    char text[64];

    if (p->neighbours == NEIGHBOUR_MAX)
        return fail(r, "is one too many: a port has at most %d neighbours", NEIGHBOUR_MAX);
    snprintf(text, sizeof(text), "%.*s", (int)min_of(len, sizeof(text) - 1), value);
    if (gid_parse(&n->addr, text) || parse_mac(mac, n->mac))
        return fail(r, "must be an address and a MAC, as 10.0.0.2 02:00:00:00:00:02, not \"%s\"",
                    value);
    p->neighbours++;
    return 0;
}

static int read_text(struct reader *r, const char *value, char *out, size_t size)
{
    if (!value[0])
        return fail(r, "has no value");
    if ((size_t)snprintf(out, size, "%s", value) >= size)
        return fail(r, "is longer than %zu characters", size - 1);
    return 0;
}

/* "/tmp/port.pcap 1000" */
static int read_capture(struct reader *r, const char *value)
{
    struct uroced_port *p = r->port;
    char *count;

    if (read_text(r, value, p->capture, sizeof(p->capture)))
        return -1;
    p->capture_frames = CONFIG_CAPTURE_FRAMES;
    count = strpbrk(p->capture, " \t");
    if (!count)
        return 0;
    *count = 0;
    return parse_number(r, count + 1 + strspn(count + 1, " \t"), 1, 1000000000, 10,
                        &p->capture_frames);
}

/* ---- keys ---- */

/* "address" and "address.7" are both the key "address". */
static bool key_is(const char *key, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(key, name, len))
        return false;
    if (!key[len])
        return true;
    return key[len] == '.' && key[len + 1] && !key[len + 1 + strspn(key + len + 1, "0123456789")];
}

static int read_daemon_key(struct reader *r, const char *value)
{
    struct uroced_config *c = r->config;

    if (!strcmp(r->key, "socket"))
        return read_text(r, value, c->socket, sizeof(c->socket));
    if (!strcmp(r->key, "mode"))
        return parse_number(r, value, 0, 0777, 8, &c->mode);
    if (!strcmp(r->key, "workers"))
        return parse_number(r, value, 1, WORKERS_MAX, 10, &c->workers);
    if (!strcmp(r->key, "idle_exit"))
        return parse_number(r, value, 1, 1000000, 10, &c->idle_exit);
    return fail(r, "is not a key of this section (socket, mode, workers, idle_exit)");
}

static int read_port_key(struct reader *r, const char *value)
{
    if (!strcmp(r->key, "device"))
        return read_text(r, value, r->port->device, sizeof(r->port->device));
    if (!strcmp(r->key, "mtu"))
        return parse_number(r, value, 576, 9600, 10, &r->port->mtu);
    if (key_is(r->key, "address"))
        return read_address(r, value);
    if (key_is(r->key, "neighbour"))
        return read_neighbour(r, value);
    if (!strcmp(r->key, "capture"))
        return read_capture(r, value);
    return fail(r, "is not a key of this section (device, mtu, address, neighbour, capture)");
}

/* ---- sections ---- */

static int check_port(struct reader *r)
{
    r->key = NULL;
    if (!r->port->device[0])
        return fail(r, "names no device");
    if (!r->port->addresses)
        return fail(r, "has no address");
    return 0;
}

static int begin_port(struct reader *r)
{
    struct uroced_config *c = r->config;
    unsigned number;
    char *end;

    number = (unsigned)strtoul(r->section + 5, &end, 10);
    if (end == r->section + 5 || *end || r->section[5] == '-' || r->section[5] == '+')
        return fail(r, "must be named [port.N] with a number N");
    if (c->ports == CONFIG_PORTS_MAX)
        return fail(r, "is one too many: there are at most %d ports", CONFIG_PORTS_MAX);
    for (unsigned i = 0; i < c->ports; i++) {
        if (c->port[i].number == number)
            return fail(r, "comes twice");
    }
    r->port = &c->port[c->ports++];
    r->port->number = number;
    return 0;
}

static int read_section(struct reader *r, struct rte_cfgfile *file, int index)
{
    static struct rte_cfgfile_entry entry[ENTRIES_MAX];
    char name[CFG_NAME_LEN];
    bool port = !strncmp(r->section, "port.", 5);
    int n = rte_cfgfile_section_num_entries_by_index(file, name, index);

    r->key = NULL;
    if (!port && strcmp(r->section, "uroced"))
        return fail(r, "is not a section of uroced's ([uroced], [port.N])");
    if (n > ENTRIES_MAX)
        return fail(r, "has more than %d keys", ENTRIES_MAX);
    if (port && begin_port(r))
        return -1;
    n = rte_cfgfile_section_entries_by_index(file, index, name, entry, ENTRIES_MAX);
    for (int i = 0; i < n; i++) {
        r->key = entry[i].name;
        if (port ? read_port_key(r, entry[i].value) : read_daemon_key(r, entry[i].value))
            return -1;
    }
    return port ? check_port(r) : 0;
}

static int compare_ports(const void *a, const void *b)
{
    const struct uroced_port *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

static int read_sections(struct reader *r, struct rte_cfgfile *file)
{
    int n = rte_cfgfile_num_sections(file, NULL, 0);
    char name[CFG_NAME_LEN];

    for (int i = 0; i < n; i++) {
        if (rte_cfgfile_section_num_entries_by_index(file, name, i) < 0)
            return fail(r, "section %d cannot be read", i);
        r->section = name;
        if (read_section(r, file, i))
            return -1;
    }
    r->section = NULL;
    if (!r->config->ports)
        return fail(r, "there is no [port.N] section");
    qsort(r->config->port, r->config->ports, sizeof(r->config->port[0]), compare_ports);
    return 0;
}

/* rte_cfgfile passes in silence over lines that it does not understand; we do not. */
static int check_lines(struct reader *r, FILE *f)
{
    char line[CFG_NAME_LEN + CFG_VALUE_LEN + 4];
    bool in_section = false;

    for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
        const char *text = line + strspn(line, " \t\r\n");

        if (!strchr(line, '\n') && !feof(f))
            return fail(r, "line %u is too long", n);
        if (!*text || *text == '#')
            continue;
        if (*text == '[')
            in_section = true;
        else if (!in_section || *text == '=' || !strchr(text, '='))
            return fail(r, "line %u is neither [section] nor a key = value in a section", n);
    }
    return 0;
}

static int check_file(struct reader *r)
{
    FILE *f = fopen(r->file, "re");
    int ret;

    if (!f)
        return fail(r, "cannot be read: %s", strerror(errno));
    ret = check_lines(r, f);
    fclose(f);
    return ret;
}

int config_load(struct uroced_config *c, const char *path, char *error, size_t size)
{
    struct reader r = {.config = c, .file = path, .error = error, .size = size};
    struct rte_cfgfile_parameters parameters = {.comment_character = '#'};
    struct rte_cfgfile *file;
    int ret;

    memset(c, 0, sizeof(*c));
    if (check_file(&r))
        return -1;
    file = rte_cfgfile_load_with_params(path, CFG_FLAG_EMPTY_VALUES, &parameters);
    if (!file)
        return fail(&r, "is no INI file (sections in brackets, then lines of key = value)");
    ret = read_sections(&r, file);
    rte_cfgfile_close(file);
    return ret;
}

void config_loopback(struct uroced_config *c)
{
    struct uroced_port *p = &c->port[0];

    *p = (struct uroced_port){.device = CONFIG_DEVICE_LOOPBACK, .addresses = 2};
    gid_parse(&p->address[0].gid, "127.0.0.1");
    p->address[0].prefix = 8;
    p->address[0].vlan = p->address[1].vlan = VLAN_NONE;
    gid_parse(&p->address[1].gid, "::1");
    p->address[1].prefix = 128;
    c->ports = 1;
}
