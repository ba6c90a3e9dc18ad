#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `uroce why` says of the cases of run_why.py: patterns for its sentences with details, and its advice."""
WRONG_KEY = ("The region that has the address 0x", "is no key of this protection domain.", "Set the rkey of")
NO_KEY = (r"The key 0x[0-9a-f]{8} is no key", "The region that has the address 0x[0-9a-f]+ has the key 0x[0-9a-f]{8}\\.", "Set sge.lkey to 0x")
REGION = "0x[0-9a-f]{8} is the key of a memory region."
MORE = {"rkey_deregistered": ("The responder is QP", "That was [0-9]+ us before the request"),
        "receive_read_only": ("It is the RECEIVE with wr_id 4712 of QP", "has remote read"),
        "receive_too_small": ("It has 64 bytes, and there was room for 16.",),
        "path_mtu_larger": ("It has 2048 bytes: longer than the path MTU here, 1024",),
        "path_mtu_smaller": ("It has 512 bytes, though more follow: shorter than the path MTU here, 1024",),
        "no_neighbour": ("The address is 203.0.113.9.", "ibv_modify_qp of QP"),
        "modify_without_psn": ("Missing: IBV_QP_RQ_PSN.",),
        "modify_with_timeout": ("Unexpected: IBV_QP_TIMEOUT.", "change to RTS"),
        "modify_reads": ("IBV_QP_MAX_DEST_RD_ATOMIC is 255, and may be 0 to 128.",),
        "modify_without_grh": ("The reason: ah_attr.is_global is 0.", "Set ah_attr.is_global to 1"),
        "peer_in_init": ("in INIT.",),
        "peer_in_error": ("in ERR.", r"Its own program .* put it there [0-9]+ us before", "IBV_QPS_ERR"),
        "peer_connected_elsewhere": ("QP [0-9]+ has QP [0-9]+ as its peer.",),
        "peer_of_other_type": ("It is QP [0-9]+, of type UD.",),
        "peer_of_other_address": ("QP [0-9]+ dropped them.", "The source address differs: expected .*, arrived "),
        "write_without_right": ("It needs remote write, and has local write, remote read.",
                                "^Register it with IBV_ACCESS_REMOTE_WRITE, beside"),
        "read_without_right": ("It needs remote read, and has local write, remote write.",),
        "qp_without_atomics": ("It needs remote atomic; its qp_access_flags are", "Set IBV_ACCESS_REMOTE_ATOMIC in"),
        "wrong_rkey": WRONG_KEY, "read_wrong_rkey": WRONG_KEY, "long_wrong_rkey": WRONG_KEY, "wrong_lkey": NO_KEY, "long_wrong_lkey": NO_KEY,
        "rkey_swapped": (*WRONG_KEY, "With its bytes reversed it is the key of a region."),
        "rkey_of_nothing": ("No region of the responder's protection domain has the address 0x1000.",),
        "write_out_of_range": ("The request is for 64 bytes from 0x[0-9a-f]+, the region has [0-9]+ from 0x", "The last 32 bytes are beyond it."),
        "lkey_out_of_range": ("The last 32 bytes are beyond it.",),
        "peer_memory_gone": ("It is the destination of the peer's request of QP", "The address is 0x[0-9a-f]+, 64 bytes, of key 0x"),
        "own_memory_gone": ("It is the source of the work request of QP", "The address is 0x[0-9a-f]+, 64 bytes, of key 0x"),
        "receive_memory_gone": ("It is the receive buffer of QP", "The address is 0x[0-9a-f]+, 64 bytes, of key 0x"),
        "bind_without_right": ("The reason: the region was registered without IBV_ACCESS_MW_BIND.",
                               "^Register the region with IBV_ACCESS_MW_BIND"),
        "local_invalidate_region": (REGION,), "invalidate_region": (REGION,),
        "ud_receive_without_grh": ("It has 104 bytes with the 40 of the network header", "room for 64.", "40 bytes more"),
        "ud_no_receive": ("None was ever posted to QP",),
        "cq_overrun": ("It is the (send|send and receive) completion queue of QP",),
        "two_writes": ("packets to QP [0-9]+ were dropped as they were sent.",),
        "reads_too_many": ("max_dest_rd_atomic of QP [0-9]+ is 0.", "to 1 or more"),
        "no_retries": ("The peer is on this device, too: QP [0-9]+, in RTS.", "It has received 1 packets.")}
BY_RULE = {"delay 9s tx opcode RC_WRITE_ONLY": ("in RTS. It has received nothing; ",),
           "drop tx opcode RC_WRITE_ONLY": ("packets to QP [0-9]+ were dropped as they were sent.",)}
