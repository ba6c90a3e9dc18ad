/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the configuration's reader. Functions return 0, or -1 with the error. */
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

/* A value, split at blanks. */
struct words {
    unsigned count; /* CONFIG_WORDS_MAX: there may be more */
    char *word[CONFIG_WORDS_MAX];
    char text[512];
};

void config_split(struct words *w, const char *value);

int config_number(struct reader *r, const char *text, unsigned min, unsigned max, int base,
                  unsigned *out);
int config_text(struct reader *r, const char *value, char *out, size_t size);
int config_yes_no(struct reader *r, const char *value, bool *out);
/* The address of a host or gateway. */
int config_host(struct reader *r, const char *text, union gid *out);
/* "10.0.0.0/24"; without a prefix it is that of a single address. Any address. */
int config_prefix(struct reader *r, const char *text, union gid *addr, uint8_t *prefix);
int config_mac(struct reader *r, const char *text, uint8_t mac[6]);
/* The words from `first` on: none, or "vlan V". */
int config_vlan(struct reader *r, const struct words *w, unsigned first, uint16_t *vlan);
/* 16 numbers up to max; 8 numbers are used twice. */
int config_table(struct reader *r, const char *value, uint8_t out[16], unsigned max);

/* Whether two addresses have the first `bits` bits in common. */
bool config_same_network(const union gid *a, const union gid *b, unsigned bits);

/* ---- config_keys.c, config_port.c, config_qos.c, config_quota.c, config_weight.c: the keys of a
 * section ---- */

/* Both "address" and "address.7" are the key "address". */
bool config_key_is(const char *key, const char *name);

int config_daemon_key(struct reader *r, const char *value);
int config_port_key(struct reader *r, const char *value);
int config_quota_key(struct reader *r, const char *value);
int config_weight_key(struct reader *r, const char *value);
int config_address(struct reader *r, const char *value);
int config_addresses(struct reader *r, const char *value);
int config_route(struct reader *r, const char *value);
int config_sl_to_pcp(struct reader *r, const char *value);
int config_priority_to_sl(struct reader *r, const char *value);
int config_dscp(struct reader *r, const char *value);
int config_ets(struct reader *r, const char *value);
int config_neighbour(struct reader *r, const char *value);
/* Sets a port's defaults before its keys are read, and checks the port after that. */
void config_port_defaults(struct uroced_port *p);
int config_check_port(struct reader *r);
/* After all sections: no part of a quota is larger than the whole. */
int config_check_quota(struct reader *r);

#endif
