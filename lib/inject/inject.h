/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Rules that make things go wrong on purpose: which packets or calls of verbs, and what becomes of
 * them. A rule is a line of words (doc/fault.md); here it is parsed, compared with packets and
 * calls, and decides. The caller has the packets and calls, and carries the decision out.
 *
 * A decision depends on the rule and on the number of the packet among those that match it: the
 * same seed and the same packets have the same faults, whichever worker sees a packet. Pure.
 */
#ifndef UROCE_INJECT_H
#define UROCE_INJECT_H

#include <stdatomic.h>

#include "common.h"
#include "frame.h"
#include "gid.h"
#include "psn.h"

#define INJECT_TEXT_MAX    256 /**< bytes of a rule, with the terminator */
#define INJECT_ERROR_MAX   160 /**< bytes of an error message, with the terminator */
#define INJECT_DEVICE_MAX  64
#define INJECT_PROGRAM_MAX 16 /**< the kernel's names of programs */
#define INJECT_WORDS_MAX   40
#define INJECT_BEHIND_MAX  32 /**< the packets that may overtake one */
#define INJECT_DELAY_MAX   (10 * NS_PER_SEC)
#define INJECT_TIME_MAX    (UINT64_C(1000000) * NS_PER_SEC) /**< `after`, `for` */
#define INJECT_BILLION     UINT64_C(1000000000)

/** What becomes of a packet; of a call; or happens once, at once. */
enum inject_act {
    INJECT_NOTHING,
    INJECT_DROP,
    INJECT_DUPLICATE,
    INJECT_CORRUPT,
    INJECT_MARK,
    INJECT_DELAY,
    INJECT_REORDER,
    INJECT_NAK, /**< an ACK becomes a NAK */
    INJECT_LINK_DOWN,
    INJECT_FAIL,
    INJECT_COMPLETE, /**< a work request fails with a status, and is not sent */
    INJECT_QP_ERROR,
    INJECT_EVENT,
    INJECT_DAEMON_DEATH,
    INJECT_ACTS
};

/** What an act is done to. */
enum inject_kind {
    INJECT_OF_PACKETS = 1 << 0,
    INJECT_OF_CALLS = 1 << 1,
    INJECT_NOW = 1 << 2, /**< nothing is waited for: no rule */
    INJECT_OF_LINKS = 1 << 3,
    INJECT_OF_REQUESTS = 1 << 4, /**< work requests of send queues */
};

/** Calls that a rule can let fail: inject_verbs.def. */
enum inject_verb {
#define X(name) INJECT_VERB_##name,
#include "inject_verbs.def"
#undef X
    INJECT_VERB_COUNT
};

/** Directions, as the port sees them. */
enum inject_direction {
    INJECT_RX = 1 << 0,
    INJECT_TX = 1 << 1,
};

/** A rule; zeroed members ask for nothing. */
struct inject_rule {
    enum inject_act act;
    unsigned directions;            /**< bits of enum inject_direction; 0: both */
    char device[INJECT_DEVICE_MAX]; /**< for the caller; "": any */
    bool by_opcode;
    uint64_t opcode[4]; /**< by_opcode: a bit for each */
    bool by_qp, by_psn;
    uint32_t qp; /**< by_qp: the destination of packets, else the queue pair itself */
    bool by_peer;
    union gid peer; /**< by_peer: the address at the other end */
    bool by_sport;
    uint16_t sport;          /**< by_sport: UDP's source port */
    uint32_t psn, psn_count; /**< by_psn: the first, and how many */
    uint64_t nth;            /**< 0: every */
    uint64_t count;          /**< 0: without a limit */
    bool by_chance;
    uint64_t chance; /**< by_chance: in billionths */
    uint64_t seed;
    ns_t after, lasts;     /**< since the rule was made; lasts 0: permanently */
    ns_t delay;            /**< INJECT_DELAY */
    unsigned behind;       /**< INJECT_REORDER: packets that overtake */
    bool header;           /**< INJECT_CORRUPT: a byte of the headers, and not of the payload */
    bool sealed;           /**< INJECT_CORRUPT: and the ICRC is made right again */
    uint8_t syndrome;      /**< INJECT_NAK: of the AETH */
    enum inject_verb verb; /**< INJECT_FAIL */
    int error;             /**< INJECT_FAIL: a positive errno */
    uint8_t status;        /**< INJECT_COMPLETE: of enum ibv_wc_status */
    uint32_t operations;   /**< INJECT_COMPLETE: a bit for each of enum ibv_wr_opcode; 0: all */
    char program[INJECT_PROGRAM_MAX]; /**< whose call, queue pair or packet it is; "": anyone's */
    uint32_t event;                   /**< INJECT_EVENT: of enum ibv_event_type */
};

/** What a rule has done. Shared by all threads that ask it. */
struct inject_hits {
    _Atomic uint64_t matched; /**< packets that it describes, within its time */
    _Atomic uint64_t picked;  /**< of these, by `nth` and `chance` */
    _Atomic uint64_t acted;   /**< of these, to which it was done */
    _Atomic uint64_t missed;  /**< of these, to which it could not be done */
};

/** A packet, as far as rules look at it. */
struct inject_packet {
    enum inject_direction direction;
    uint8_t opcode;
    uint16_t sport; /**< 0: not over UDP */
    uint32_t dest_qpn;
    uint32_t psn;
    bool is_ack;         /**< of the reliable services; no NAK */
    union gid peer;      /**< received: the source; else the destination */
    const char *program; /**< whose queue pair it is for; NULL: not known */
};

/** A work request of a send queue, as far as rules look at it. */
struct inject_request {
    uint32_t qpn;
    uint8_t operation; /**< of enum ibv_wr_opcode, or none of these */
    const char *program;
};

/** A call of a program, as far as rules look at it. */
struct inject_call {
    enum inject_verb verb;
    const char *program;
};

/* ---- inject_parse.c ---- */

/**
 * Read a rule. Any thread.
 *
 * @param rule  Set on success; undefined otherwise.
 * @param text  Words between blanks; from outside.
 * @param error  Set on failure to a line that names the wrong word.
 * @return  0; -EINVAL.
 */
int inject_parse(struct inject_rule *rule, const char *text, char error[INJECT_ERROR_MAX]);

/**
 * Read what is to happen once, now. Any thread.
 *
 * @param rule  Set on success, perhaps to a rule: inject_kind_of() tells; undefined otherwise.
 * @param text  Words between blanks; from outside.
 * @param error  Set on failure to a line that names the wrong word, and what can happen now.
 * @return  0; -EINVAL.
 */
int inject_parse_once(struct inject_rule *rule, const char *text, char error[INJECT_ERROR_MAX]);

/**
 * What an act is done to. Any thread.
 *
 * @param act  Of a rule.
 * @return  Its kind.
 */
enum inject_kind inject_kind_of(enum inject_act act);

/* ---- inject_match.c ---- */

/**
 * Whether a rule describes a packet, without regard to its time. Any thread.
 *
 * @param rule  The rule.
 * @param p  The packet.
 * @return  True when it does.
 */
bool inject_matches(const struct inject_rule *rule, const struct inject_packet *p);

/**
 * Whether `nth` and `chance` pick a packet. Any thread.
 *
 * @param rule  The rule.
 * @param index  How many packets have matched before.
 * @return  True when they do.
 */
bool inject_picks(const struct inject_rule *rule, uint64_t index);

/**
 * A number for a packet, the same each time. Any thread.
 *
 * @param rule  The rule, with the seed.
 * @param index  How many packets have matched before.
 * @param n  At least 1.
 * @return  0 to n - 1.
 */
uint32_t inject_below(const struct inject_rule *rule, uint64_t index, uint32_t n);

/**
 * Whether a rule acts at a time. Any thread.
 *
 * @param rule  The rule.
 * @param age  How long ago the rule was made.
 * @return  True: not before `after`, and not past `lasts`.
 */
bool inject_is_its_time(const struct inject_rule *rule, ns_t age);

/**
 * Compare a packet with a rule, and count. Any thread.
 *
 * @param rule  The rule.
 * @param hits  What the rule has done: `acted` and `missed` are the caller's to count.
 * @param p  The packet.
 * @param age  How long ago the rule was made.
 * @param index  Set if the packet matches: how many have matched before.
 * @return  True: the rule acts on the packet.
 */
bool inject_decide(const struct inject_rule *rule, struct inject_hits *hits,
                   const struct inject_packet *p, ns_t age, uint64_t *index);

/**
 * Whether a verb is called for a device; those of librdmacm are not. Any thread.
 *
 * @param verb  The verb.
 * @return  True when it is.
 */
static inline bool inject_verb_has_device(enum inject_verb verb)
{
    return verb < INJECT_VERB_create_id;
}

/**
 * Whether a verb is no message to the daemon of its own: libraries ask before it. Any thread.
 *
 * @param verb  The verb.
 * @return  True when it is so.
 */
static inline bool inject_verb_is_asked(enum inject_verb verb)
{
    return verb >= INJECT_VERB_post_send && verb <= INJECT_VERB_req_notify_cq;
}

/**
 * The function that programs call for a verb. Any thread.
 *
 * @param verb  The verb.
 * @return  "ibv_reg_mr", "rdma_connect"; NULL: there is no such verb.
 */
const char *inject_verb_function(uint64_t verb);

/**
 * The name of an error that a rule can let calls fail with. Any thread.
 *
 * @param error  A positive errno.
 * @return  "ENOMEM"; NULL: no rule can have it.
 */
const char *inject_error_name(uint64_t error);

/**
 * Compare a call with a rule, and count. Any thread.
 *
 * @param rule  The rule; INJECT_FAIL.
 * @param hits  What the rule has done: `acted` is the caller's to count.
 * @param c  The call.
 * @param age  How long ago the rule was made.
 * @return  True: the call is to fail.
 */
bool inject_decide_call(const struct inject_rule *rule, struct inject_hits *hits,
                        const struct inject_call *c, ns_t age);

/**
 * Compare a work request with a rule, and count. Any thread.
 *
 * @param rule  The rule; INJECT_COMPLETE.
 * @param hits  What the rule has done: `acted` is the caller's to count.
 * @param r  The work request.
 * @param age  How long ago the rule was made.
 * @return  True: the work request is to fail.
 */
bool inject_decide_request(const struct inject_rule *rule, struct inject_hits *hits,
                           const struct inject_request *r, ns_t age);

/* ---- inject_frame.c ---- */

/**
 * What rules look at in a frame. Any thread.
 *
 * @param p  Set if it is RoCE; but for the program, and the direction, which is there before.
 * @param f  The frame, received or complete otherwise.
 * @return  False: it is no RoCE frame, or has an error.
 */
bool inject_read(struct inject_packet *p, const struct frame *f);

/**
 * Change a byte of a frame as the rule says. Without `sealed` the frame's ICRC does not fit
 * afterwards, and one that was left out is put in before.
 *
 * @param rule  The rule.
 * @param index  The packet's number, which with the seed chooses the byte.
 * @param f  The frame, that may be written; icrc_omitted may be cleared.
 * @return  False: it is no RoCE frame or has no such byte, and nothing has changed.
 */
bool inject_corrupt(const struct inject_rule *rule, uint64_t index, struct frame *f);

/**
 * Make an ACK a NAK of the rule's kind, with an ICRC that fits (volume 1, 9.7.5.2.8).
 *
 * @param rule  The rule; INJECT_NAK.
 * @param f  The frame, that may be written.
 * @return  False: it is no ACK of the reliable services, and nothing has changed.
 */
bool inject_nak(const struct inject_rule *rule, struct frame *f);

#endif
