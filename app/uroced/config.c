/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file and its sections. See config.h. */
#include "config_reader.h"
#include "printable.h"

#include <errno.h>
#include <rte_cfgfile.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MAX 1024
#define BLANKS      " \t\r\n"

int config_fail(struct reader *r, const char *format, ...)
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

static int begin_port(struct reader *r)
{
    struct uroced_config *c = r->config;
    unsigned long number;
    char *end;

    errno = 0;
    number = strtoul(r->section + 5, &end, 10);
    if (end == r->section + 5 || *end || r->section[5] == '-' || r->section[5] == '+')
        return config_fail(r, "must be named [port.N] with a number N");
    if (errno || number > UINT32_MAX)
        return config_fail(r, "must be named [port.N] with a number N up to %u", UINT32_MAX);
    if (c->ports == CONFIG_PORTS_MAX)
        return config_fail(r, "is one too many: there are at most %d ports", CONFIG_PORTS_MAX);
    for (unsigned i = 0; i < c->ports; i++) {
        if (c->port[i].number == number)
            return config_fail(r, "comes twice");
    }
    r->port = &c->port[c->ports++];
    config_port_defaults(r->port);
    r->port->number = (unsigned)number;
    return 0;
}

static int read_key(struct reader *r, const char *value)
{
    switch (r->section[0]) {
    case 'p':
        return config_port_key(r, value);
    case 'q':
        return config_quota_key(r, value);
    case 'w':
        return config_weight_key(r, value);
    default:
        return config_daemon_key(r, value);
    }
}

static int read_section(struct reader *r, struct rte_cfgfile *file, int index)
{
    static struct rte_cfgfile_entry entry[ENTRIES_MAX];
    char name[CFG_NAME_LEN];
    bool port = !strncmp(r->section, "port.", 5), quota = !strcmp(r->section, "quota");
    int n = rte_cfgfile_section_num_entries_by_index(file, name, index);

    r->key = NULL;
    if (!port && !quota && strcmp(r->section, "weight") && strcmp(r->section, "uroced"))
        return config_fail(r,
                           "is not a section of uroced's ([uroced], [quota], [weight], [port.N])");
    if (n > ENTRIES_MAX)
        return config_fail(r, "has more than %d keys", ENTRIES_MAX);
    if (port && begin_port(r))
        return -1;
    if (!port && rte_cfgfile_num_sections(file, r->section, strlen(r->section)) > 1)
        return config_fail(r, "comes twice");
    n = rte_cfgfile_section_entries_by_index(file, index, name, entry, ENTRIES_MAX);
    for (int i = 0; i < n; i++) {
        r->key = entry[i].name;
        for (int k = 0; k < i; k++) {
            if (!strcmp(entry[k].name, entry[i].name))
                return config_fail(r, "comes twice");
        }
        if (read_key(r, entry[i].value))
            return -1;
    }
    if (quota)
        return config_check_quota(r);
    return port ? config_check_port(r) : 0;
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
            return config_fail(r, "section %d cannot be read", i);
        r->section = name;
        if (read_section(r, file, i))
            return -1;
    }
    r->section = NULL;
    if (!r->config->ports)
        return config_fail(r, "there is no [port.N] section");
    qsort(r->config->port, r->config->ports, sizeof(r->config->port[0]), compare_ports);
    return 0;
}

/* From the first # on, unless a backslash is in front of it, as for rte_cfgfile. */
static void cut_comment(char *line)
{
    char *comment = strchr(line, '#');

    if (comment && (comment == line || comment[-1] != '\\'))
        *comment = '\0';
}

/* The bytes from text to end, without blanks around them. */
static size_t bare_length(const char *text, const char *end)
{
    while (text < end && strchr(BLANKS, *text))
        text++;
    while (end > text && strchr(BLANKS, end[-1]))
        end--;
    return (size_t)(end - text);
}

/* A line of a section or of a key, without its comment. NULL: rte_cfgfile takes it as it is meant;
 * else what is wrong with it. */
static const char *line_error(const char *text, bool in_section)
{
    bool is_section = *text == '[';
    const char *end = strchr(text, is_section ? ']' : '=');

    if (is_section && !end)
        return "has no closing bracket";
    if (is_section && end[1 + strspn(end + 1, BLANKS)])
        return "has more than a section's name in brackets";
    if (!is_section && (!in_section || !end || end == text))
        return "is neither [section] nor a key = value in a section";
    if (bare_length(text + is_section, end) >= CFG_NAME_LEN)
        return "has a name that is too long";
    return NULL;
}

/* rte_cfgfile silently skips what it does not understand, and cuts long names and values; uroced
 * reports them. */
static int check_syntax(struct reader *r, FILE *f)
{
    char line[CFG_NAME_LEN + CFG_VALUE_LEN + 4];
    bool in_section = false;

    for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
        const char *text = line + strspn(line, BLANKS), *wrong;

        if (!strchr(line, '\n') && !feof(f))
            return config_fail(r,
                               strlen(line) + 1 < sizeof(line) ? "line %u has a zero byte"
                                                               : "line %u is too long",
                               n);
        if (n == 1 && !strncmp(line, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)))
            return config_fail(r, "begins with a byte order mark: save it as UTF-8 without BOM");
        cut_comment(line);
        if (!*text)
            continue;
        wrong = line_error(text, in_section);
        if (wrong)
            return config_fail(r, "line %u %s", n, wrong);
        if (*text == '[')
            in_section = true;
        else if (bare_length(strchr(text, '=') + 1, text + strlen(text)) >= CFG_VALUE_LEN)
            return config_fail(r, "line %u has a value of more than %d characters", n,
                               CFG_VALUE_LEN - 1);
    }
    return ferror(f) ? config_fail(r, "cannot be read: %s", strerror(errno)) : 0;
}

static int check_file(struct reader *r)
{
    FILE *f = fopen(r->file, "re");
    int ret;

    if (!f)
        return config_fail(r, "cannot be read: %s", strerror(errno));
    if (lseek(fileno(f), 0, SEEK_CUR) < 0 && errno == ESPIPE) /* rte_cfgfile reads it again */
        ret = config_fail(r, "is a pipe: write the configuration to a file");
    else
        ret = check_syntax(r, f);
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
        return config_fail(&r, "is no INI file (sections in brackets, then lines of key = value)");
    ret = read_sections(&r, file);
    rte_cfgfile_close(file);
    return ret;
}

static int single_port(struct uroced_config *c, const char *option, const char *device,
                       const char *addresses, char *error, size_t size)
{
    struct uroced_port *p = &c->port[0];
    struct reader r = {.config = c, .port = p, .file = option, .error = error, .size = size};
    char text[512], *rest = text, *word;

    c->ports = 1;
    config_port_defaults(p);
    snprintf(p->device, sizeof(p->device), "%s", device);
    if (addresses && config_text(&r, addresses, text, sizeof(text)))
        return -1;
    while (addresses && (word = strsep(&rest, ","))) {
        if (config_address(&r, word))
            return -1;
    }
    return config_check_port(&r);
}

int config_loopback(struct uroced_config *c, const char *addresses, char *error, size_t size)
{
    return single_port(c, "--loopback", CONFIG_DEVICE_LOOPBACK, addresses, error, size);
}

int config_udp(struct uroced_config *c, const char *addresses, char *error, size_t size)
{
    return single_port(c, "--udp", CONFIG_DEVICE_SOCKET, addresses, error, size);
}
