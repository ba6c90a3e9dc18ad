# SPDX-License-Identifier: BSD-3-Clause
"""Chapter 12 of volume 1, and what else rules the connection manager (lib/cm): rules in words of our own.

    section: (title, (rule, ...)), where a rule is (about, outcomes, tests) or (about, state, why)

outcomes: of lib/cm/cm_states.def, in any cell. Each of them stands in a rule here, and test_every_cell of
test_cm_states does the input of every cell in its state and compares message, event, next state and timer.
tests: functions of test/unit/*/test_FILE.c, as FILE:FUNCTION without the `test_` of both.
state: "not done" or "not applicable".
"""

VECTORS = "cm_vectors:each_side_of_every_exchange"

CHAPTER_12 = {
    "12.6.5": ("REQ", (
        ("The fields of a REQ, and up to 92 bytes of private data", "con",
         f"wire_cm_msg:kernel_messages wire_cm_msg:private_data_sizes cm_connect:sizes cm_connect:connection {VECTORS}"),
        ("Unreliable connections are asked for like reliable ones; reliable datagrams are rejected", "",
         "cm_request:faults"),
    )),
    "12.6.6": ("MRA", (
        ("A program's MRA says how long the answer takes", "mrq mrp", "cm_connect:delay"),
        ("The first repetition of a REQ or REP that awaits a program is answered by an MRA", "wtq wtp",
         "cm_connect:slow_program cm_connect:response_is_taken_once"),
        ("The receiver of an MRA waits for the time that it says, and then asks again", "mwq mwp arq arp",
         "cm_connect:delay cm_connect:slow_program cm_parts:times_of_peers_are_bounded"),
        ("An MRA for a LAP", "not applicable", "no LAP is sent"),
    )),
    "12.6.7": ("REJ", (
        ("A REJ says what it rejects, by the sender's IDs; private data and additional information have their room",
         "rej rjt", f"cm_connect:rejected cm_connect:response_rejected cm_connect:sizes wire_cm_msg:private_data_sizes"),
        ("Its receiver hears of it in every state of a connection being made, and of one that exists", "rji rjw",
         f"cm_states:rejections_are_reported cm_connect:rejected cm_connect:response_rejected {VECTORS}"),
        ("A REJ for a DREQ: the peer knows of no connection, which ends", "rjd", "cm_states:every_cell"),
    )),
    "12.6.7.2": ("Reasons of a REJ", (
        ("Timeout (4), with the CA GUID where the peer may not know this end's ID; so withdraws an active side", "cnc toq top",
         "cm_connect:withdrawn cm_connect:timeout_is_told cm_connect:unreachable"),
        ("Unsupported class version (31)", "", "cm_request:req_of_another_version"),
        ("Invalid communication ID (6), for a REP or RTU of a connection that this end has not", "unk lat gon",
         "cm_connect:ready_too_late cm_connect:ready_never_comes cm_connect:no_storm"),
        ("Invalid service ID (8), where nothing listens", "", f"cm_request:faults cm_connect:no_listener {VECTORS}"),
        ("Invalid transport service type (9), GID (12) and path MTU (26)", "", "cm_request:faults"),
        ("Stale connection (10)", "old", "cm_connect:stale_connection cm_connect:stale_by_response cm_connect:no_storm"),
        ("Consumer defined (28): of the program, of its end, and of addresses that are not the packet's", "rfs abt",
         "cm_connect:rejected cm_request:faults cm_states:every_cell_can_be_left"),
        ("No resources (3), where the listener's user has no room for another id", "", "device_cm:request_without_room"),
        ("Port and CM redirection", "not done", "redirections are neither sent nor followed: they end the attempt as REJECTED"),
    )),
    "12.6.8": ("REP", (
        ("The fields of a REP, and up to 196 bytes of private data", "acc",
         f"wire_cm_msg:kernel_messages cm_connect:sizes cm_connect:what_both_know {VECTORS}"),
        ("A REP is taken over once; its repetitions are answered by the RTU or MRA sent before", "rep agn",
         "cm_connect:response_is_taken_once cm_connect:any_loss"),
        ("An alternate path that the REQ asks for is declined", "", "cm_request:alternate_paths_are_declined"),
    )),
    "12.6.9": ("RTU", (
        ("Both ends are established by it", "rtu est", f"cm_connect:connection cm_connect:sizes {VECTORS}"),
    )),
    "12.6.10": ("DREQ", (
        ("Either end disconnects by a DREQ, which names the peer's queue pair", "drq dis drc",
         f"cm_connect:disconnect cm_connect:destroyed_connection cm_connect:sizes {VECTORS}"),
    )),
    "12.6.11": ("DREP", (
        ("A DREQ is answered by a DREP with its transaction ID, also by an end that knows no such connection any more",
         "drp ans dan", f"cm_connect:disconnect cm_connect:late_disconnect cm_connect:any_loss_at_the_end {VECTORS}"),
        ("A DREP ends the connection", "dnd", f"cm_connect:disconnect cm_connect:any_loss_at_the_end {VECTORS}"),
    )),
    "12.7": ("Fields of messages", (
        ("Each field stands at its bits, and private data behind all of them", "",
         "wire_cm_msg:fields_are_apart wire_cm_msg:bits_of_a_field wire_cm_msg:private_data_ends_the_message "
         "wire_cm_msg:kernel_messages"),
        ("A communication ID is not used again while messages of its connection may arrive", "",
         "cm_parts:ids cm_parts:ids_run_out"),
        ("Transaction IDs: an answer has that of its request", "", VECTORS),
        ("Times are codes of 4.096 us * 2^code", "", "cm_parts:times cm_request:longest_times"),
        ("The two ends' depths of READs and atomics, retry counts, PSNs and path MTU make the queue pairs' attributes", "",
         "cm_request:attributes cm_request:attributes_at_each_state cm_request:psn_before_accept cm_connect:what_both_know"),
    )),
    "12.7.34": ("Local ACK timeout", (
        ("Twice the packet life time and the delay of the other end's CA", "",
         "cm_parts:ack_timeouts cm_request:attributes"),
    )),
    "12.8.1": ("LAP", (
        ("A LAP is answered by an APR that declines", "apr", "cm_request:alternate_paths_are_declined"),
        ("Sending a LAP", "not applicable", "RoCE ports have no alternate paths; the UDP source port changes the path instead"),
    )),
    "12.8.2": ("APR", (
        ("An APR says that the LAP is not supported, or that there is no such connection", "apr",
         "cm_request:alternate_paths_are_declined"),
    )),
    "12.9.7": ("States", (
        ("Every input in every state: what is sent, reported and waited for; what a state does not expect changes nothing",
         "", "cm_states:every_cell cm_states:kinds_of_outcomes cm_states:every_state_is_reached cm_states:answers_end"),
        ("What is over stays over", "", "cm_states:no_way_back"),
        ("Time ends whatever a program no longer wants; a user's ids that wait for that are bounded", "end lng",
         "cm_users:lingering cm_states:everything_ends cm_states:every_cell_can_be_left"),
        ("Late packets are waited for before the queue pair may be used again", "ext",
         "cm_connect:disconnect cm_connect:late_disconnect cm_connect:destroyed_connection"),
    )),
    "12.9.7.1": ("States of the active side", (
        ("REQ sent, REP received, established, each step taken once, whichever messages are lost", "con rep rtu",
         f"cm_connect:connection cm_connect:any_loss cm_connect:response_is_taken_once {VECTORS}"),
        ("A call that the state does not take is refused, and one with too much private data", "",
         "cm_states:every_cell cm_connect:sizes"),
    )),
    "12.9.7.2": ("States of the passive side", (
        ("A listener's REQ makes a request, within its limits; other service IDs make nothing", "lsn",
         "cm_connect:no_listener cm_request:flood_fills_the_backlog cm_request:flood_of_a_willing_program "
         "cm_request:listener_ends"),
        ("REQ received, REP sent, established, each step taken once, whichever messages are lost", "acc est",
         f"cm_connect:connection cm_connect:any_loss {VECTORS}"),
        ("A packet to the queue pair establishes, too, if the RTU is lost; once", "est isc", "cm_connect:notified"),
    )),
    "12.9.8": ("Repetitions and timeouts", (
        ("REQ, REP, DREQ and SIDR_REQ are repeated, as many times as the maximum of CM retries says, and then given up",
         "agn toq top tos", "cm_connect:unreachable cm_connect:ready_never_comes cm_states:repetitions cm_request:many_timers"),
        ("A repeated message is answered by the message that answered it before", "agn dan",
         "cm_connect:any_loss cm_connect:any_loss_at_the_end cm_connect:no_storm"),
        ("REPs are repeated at a limited rate to an address that has not shown that it hears, and messages of no connection "
         "answered at one", "",
         "cm_request:forged_requests cm_request:requests_of_many_addresses cm_request:proven_peers cm_request:answers_are_limited"),
        ("Two managers cannot keep each other busy", "", "cm_states:answers_end cm_connect:no_storm"),
    )),
    "12.9.8.3.1": ("Stale connections: a REQ or REP", (
        ("A REQ or REP from the queue pair of an established connection is rejected as stale; a DREQ ends the old connection",
         "stl", "cm_connect:stale_connection cm_connect:stale_by_response"),
        ("A connection that the program has left, and whose end the peer has not answered, makes room instead", "",
         "cm_connect:lingering_is_not_stale"),
        ("A CA GUID from another address is another peer's", "", "cm_connect:others_claims"),
    )),
    "12.10.4": ("Both ends ask", (
        ("The one with the smaller CA GUID, then the smaller queue pair number becomes the passive side", "per",
         "cm_connect:peer_to_peer cm_connect:own_peer"),
        ("A REJ for a service ID that the peer has not yet asked for is ignored", "", "cm_connect:peer_comes_later"),
    )),
    "12.10.8": ("Communication release", (
        ("Both ends disconnect, in either order or at once, whichever messages are lost", "dbo dnd drp",
         f"cm_connect:any_loss_at_the_end cm_connect:disconnect {VECTORS}"),
        ("The end of a program ends its connections", "dis ans lng abt", "cm_connect:destroyed_connection device_cm:program_ends"),
    )),
    "12.11.1": ("SIDR_REQ", (
        ("The fields of a SIDR_REQ, and up to 216 bytes of private data", "srq",
         f"cm_request:sidr wire_cm_msg:private_data_sizes {VECTORS}"),
        ("Not answered, it is repeated and then given up", "tos", "cm_request:sidr_refused"),
    )),
    "12.11.2": ("SIDR_REP", (
        ("It says the queue pair and its Q_Key, and ends the exchange", "sre sdr", f"cm_request:sidr {VECTORS}"),
        ("Its status: no such service (1), rejected (2)", "sno", "cm_request:sidr_refused"),
        ("Redirection", "not done", "a SIDR_REP with another status than 0 ends the request"),
    )),
    "13.4.8": ("The general services interface: methods and attributes", (
        ("ClassPortInfo is answered; any other request gets a status, and a response or an unknown method nothing", "",
         "cm_gsi:gsi wire_mad:class_port_info_in_a_mad"),
        ("Classes of vendors and applications are open to a handler; subnet management's and others are not supported", "",
         "cm_gsi:gsi cm_gsi:classes_that_are_open cm_gsi:a_class_with_a_handler device_gsi:classes"),
        ("Packets of queue pair 1 have its Q_Key, and answers go to where they came from", "",
         "device_gsi:qkeys device_gsi:sources device_gsi:waiting"),
    )),
    "A11": ("RDMA IP CM service", (
        ("Service IDs of port spaces and port numbers; all others are native", "",
         "wire_mad:service_ids cm_request:native_service_id"),
        ("Addresses and port number stand in front of the private data, and are the packet's own", "",
         f"wire_mad:ip_cm_header_v4 wire_mad:ip_cm_header_v6 wire_mad:not_an_ip_cm_header cm_request:faults {VECTORS}"),
    )),
    "A14": ("XRC: connections", (
        ("The receiving end has no requests of its own, and its QPN stands where an EE context's was", "",
         "cm_request:xrc"),
    )),
}
