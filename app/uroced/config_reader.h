/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the configuration's reader share. Functions return 0, or -1 with the error. */
#ifndef UROCED_CONFIG_READER_H
#define UROCED_CONFIG_READER_H

#include "common.h"
#include "config.h"

struct reader {
    struct uroced_config *config;
    struct uroced_port *port; /* of the section being read */
    const char *file, *section, *key;
    char *error;
    size_t size;
};

/* Writes the error: the file, the section and key where they are known, and the text. Returns -1.
 */
__attribute__((format(printf, 2, 3))) int config_fail(struct reader *r, const char *format, ...);

/* ---- config_values.c: what stands behind the equals sign ---- */

#define CONFIG_WORDS_MAX 17

/* A value taken apart at its blanks. */
struct words {
    unsigned count; /* CONFIG_WORDS_MAX: perhaps there are more */
    char *word[CONFIG_WORDS_MAX];
    char text[512];
};

void config_split(struct words *w, const char *value);

int config_number(struct reader *r, const char *text, unsigned min, unsigned max, int base,
                  unsigned *out);
int config_text(struct reader *r, const char *value, char *out, size_t size);
int config_yes_no(struct reader *r, const char *value, bool *out);
/* A host's or a gateway's address. */
int config_host(struct reader *r, const char *text, union gid *out);
/* "10.0.0.0/24"; without a prefix the address stands alone. Any address. */
int config_prefix(struct reader *r, const char *text, union gid *addr, uint8_t *prefix);
int config_mac(struct reader *r, const char *text, uint8_t mac[6]);
/* The rest of the words from `first` on: nothing, or "vlan V". */
int config_vlan(struct reader *r, const struct words *w, unsigned first, uint16_t *vlan);
/* 16 numbers up to max; 8 stand for themselves twice. */
int config_table(struct reader *r, const char *value, uint8_t out[16], unsigned max);

/* Whether the first bits of two addresses are the same. */
bool config_same_network(const union gid *a, const union gid *b, unsigned bits);

/* ---- config_keys.c, config_port.c: the keys of a section ---- */

/* "address" and "address.7" are both the key "address". */
bool config_key_is(const char *key, const char *name);

int config_daemon_key(struct reader *r, const char *value);
int config_port_key(struct reader *r, const char *value);
int config_address(struct reader *r, const char *value);
int config_addresses(struct reader *r, const char *value);
int config_route(struct reader *r, const char *value);
int config_neighbour(struct reader *r, const char *value);
/* What a port has before its keys are read, and what must hold when they are. */
void config_port_defaults(struct uroced_port *p);
int config_check_port(struct reader *r);
void config_loopback_addresses(struct uroced_port *p);

#endif
