/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects shared by queue pairs: WQEs of a shared receive queue, address handles, and the list of
 * completion queues to notify after a call into the engine.
 */
#include "engine_private.h"
#include "id_tables.h"
#include "rules.h"

#define MEMBERS (2 * FRAME_BURST + 2) /* more completion queues than the engine remembers */
#define QKEY    0x1234

static void shared_places_come_back(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 1});
    struct kit_node *n = &k->node[1];
    struct kit_srq *srq = kit_srq_create(n, 4, NULL, 0);
    struct kit_qp *a = kit_qp_create(&k->node[0], NULL);
    struct kit_qp *b = kit_qp_create(n, &(struct kit_qp_config){.srq = srq});
    struct kit_mr *from = kit_mr_create(&k->node[0], 64, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    struct kit_mr *to = kit_mr_create(n, 64, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    struct sge sge = kit_sge(to, 0, 64);

    kit_connect(a, b, NULL);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(kit_srq_post(srq, i, &sge, 1), 0);
        assert_int_not_equal(kit_srq_post(srq, 4, &sge, 1), 0);
        for (unsigned i = 0; i < 4; i++) {
            kit_do(a, SQE_SEND, i, from, 0, 8, NULL, 0);
            kit_settle(k);
            completes(a->send_cq, i, WC_SUCCESS);
            completes(b->recv_cq, i, WC_SUCCESS);
        }
    }
    kit_destroy(k);
}

static void destroyed_handle_is_not_found(void **state)
{
    struct ah_table *t = ah_table_create(NULL);
    struct address_vector av = {.gid_type = GID_TYPE_ROCE_V2, .vlan = VLAN_NONE};
    struct address_handle *ah;
    uint32_t number;
    int err;

    ah = address_handle_create(t, KIT_PD, &av, 0, &err);
    assert_non_null(ah);
    number = address_handle_number(ah);
    assert_ptr_equal(ah_find(t, number, KIT_PD), ah);
    address_handle_unpublish(t, ah);
    assert_null(ah_find(t, number, KIT_PD));
    address_handle_free(ah);
    ah_table_destroy(t);
}

static void fix_ip_checksum(uint8_t *ip)
{
    uint32_t sum = 0;

    ip[10] = ip[11] = 0;
    for (unsigned i = 0; i < 20; i += 2)
        sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10] = (uint8_t)(~sum >> 8);
    ip[11] = (uint8_t)~sum;
}

/* A datagram for 224.1.2.3, sent from a to b. */
static void inject_to_group(const struct rules *t)
{
    static const uint8_t mac[] = {0x01, 0x00, 0x5E, 1, 2, 3}, group[] = {224, 1, 2, 3};
    struct pkt p = {.opcode = OPCODE(PKT_UD, OP_SEND_ONLY),
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = QPN_MULTICAST,
                    .deth = {.qkey = QKEY, .src_qpn = t->a->qpn},
                    .payload_len = 8};
    uint8_t frame[KIT_FRAME_ROOM];
    uint32_t len = kit_frame_build(frame, t->a, &p, "01234567");

    memcpy(frame, mac, sizeof(mac));
    memcpy(frame + 14 + 16, group, sizeof(group));
    fix_ip_checksum(frame + 14);
    kit_frame_reseal(frame, len);
    kit_link_inject(t->ab, frame, len);
}

/* At b, in the group, with a receive WQE and a completion queue of its own. */
static struct kit_qp *make_member(const struct rules *t, unsigned i)
{
    struct kit_node *n = &t->k->node[1];
    union gid group = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3});
    struct kit_qp_config config = {.type = QPT_UD, .recv_cq = kit_cq_create(n, 4)};
    struct kit_qp *qp;

    config.send_cq = config.recv_cq;
    qp = kit_qp_create(n, &config);
    kit_start_ud(qp, QKEY, 0);
    kit_recv(qp, i, t->mb, 64 * i, 64);
    assert_int_equal(engine_mcast_join(n->engine, qp->qp, &group), 0);
    return qp;
}

/* Each member has a completion queue of its own, all armed: one event each. */
static void many_queues_at_once(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_qp *member[MEMBERS];

    for (unsigned i = 0; i < MEMBERS; i++) {
        member[i] = make_member(&t, i);
        kit_arm(member[i]->recv_cq, CQ_ARM_NEXT);
    }
    inject_to_group(&t);
    kit_settle(t.k);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(completes(member[i]->recv_cq, i, WC_SUCCESS).byte_len, 48);
        assert_int_equal(member[i]->recv_cq->events, 1);
    }
    rules_finish(&t);
}

static enum kit_verdict inject_before_last(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                                           const struct kit_seen *seen)
{
    if (seen->pkt.opcode == RC(OP_SEND_LAST))
        inject_to_group(ctx);
    return KIT_PASS;
}

/* The members' completions fill what the engine has for those of a burst; the last packet of a long
 * SEND, right behind the datagram, adds one. */
static void full_of_members(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_qp *member[FRAME_BURST];

    for (unsigned i = 0; i < FRAME_BURST; i++)
        member[i] = make_member(&t, i);
    t.ab->hook = inject_before_last;
    t.ab->hook_ctx = &t;
    kit_recv(t.b, 100, t.mb, 8192, 2 * MTU);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 2 * MTU, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(completes(t.b->recv_cq, 100, WC_SUCCESS).byte_len, 2 * MTU);
    assert_memory_equal(t.mb->bytes + 8192, t.ma->bytes, 2 * MTU);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        completes(member[i]->recv_cq, i, WC_SUCCESS);
        completes_nothing(member[i]->recv_cq);
    }
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_places_come_back),
        cmocka_unit_test(destroyed_handle_is_not_found),
        cmocka_unit_test(many_queues_at_once),
        cmocka_unit_test(full_of_members),
    };

    return cmocka_run_group_tests_name("rc_shared", tests, NULL, NULL);
}
