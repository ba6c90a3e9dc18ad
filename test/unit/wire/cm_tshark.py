#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MADs that lib/wire writes, taken apart by tshark: cm_tshark.py CM_MESSAGES UROCE VECTORS

Every field of a message must be what was written there. tshark takes REQ, REJ, REP, RTU, DREQ, DREP, the RDMA IP CM
header and ClassPortInfo apart; of MRA, LAP, APR and SIDR it knows the name, and the header is compared. It reads flow
labels and packet rates from the wrong bits, and knows nothing of ECE. Then the kernel's messages in captures, as tshark
and as `uroce dissect` show them."""
import ipaddress
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kit"))
from uroce_kit import Failure, run_points

COUNT = 20
HEADER = {"base_version": "baseversion", "mgmt_class": "mgmtclass", "class_version": "classversion",
          "status": "status", "class_specific": "classspecific", "transaction_id": "transactionid",
          "attribute_id": "attributeid", "attribute_modifier": "attributemodifier"}
COMM_IDS = {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid", "private_data": "private"}
PATH = {"local_lid": "locallid", "remote_lid": "remotelid", "local_gid": "localgid", "remote_gid": "remotegid",
        "traffic_class": "tfcclass", "hop_limit": "hoplim", "sl": "sl",
        "subnet_local": "subnetlocal", "local_ack_timeout": "localacktout"}
# Kind: tshark's prefix, our field -> tshark's.
FIELDS = {
    "REQ": ("infiniband.cm.req.", {
        "local_comm_id": "", "service_id": "serviceid", "local_ca_guid": "localcaguid", "local_qkey": "localqkey",
        "local_qpn": "localqpn", "responder_resources": "responderres", "local_eecn": "localeecn",
        "initiator_depth": "initdepth", "remote_eecn": "remoteeecn", "remote_cm_response_timeout": "remoteresptout",
        "transport_service_type": "transpsvctype", "end_to_end_flow_control": "e2eflowctrl",
        "starting_psn": "startpsn", "local_cm_response_timeout": "localresptout", "retry_count": "retrcount",
        "partition_key": "pkey", "path_mtu": "pppmtu", "rdc_exists": "rdcexist", "rnr_retry_count": "rnrretrcount",
        "max_cm_retries": "maxcmretr", "srq": "srq", "extended_transport_type": "ext_transport",
        "private_data": "private",
        **{"primary_" + ours: "prim_" + theirs for ours, theirs in PATH.items()},
        **{"alternate_" + ours: "alt_" + theirs for ours, theirs in PATH.items()}}),
    "REJ": ("infiniband.cm.rej.", {**COMM_IDS, "message_rejected": "msgrej", "info_length": "rejinfolen",
                                   "reason": "reason", "info": "ari"}),
    "REP": ("infiniband.cm.rep.", {
        "local_comm_id": "", "remote_comm_id": "remotecommid", "local_qkey": "localqkey", "local_qpn": "localqpn",
        "local_eecn": "localeecn", "starting_psn": "startpsn", "responder_resources": "respres",
        "initiator_depth": "initdepth", "target_ack_delay": "tgtackdelay", "failover_accepted": "failoveracc",
        "end_to_end_flow_control": "e2eflowctrl", "rnr_retry_count": "rnrretrcount", "srq": "srq",
        "local_ca_guid": "localcaguid", "private_data": "private"}),
    "RTU": ("infiniband.cm.rtu.", COMM_IDS),
    "DREQ": ("infiniband.cm.dreq.", {**COMM_IDS, "remote_qpn": "../req.remoteqpneecn"}),
    "DREP": ("infiniband.cm.drsp.", COMM_IDS),
    "IP_CM4": ("infiniband.cm.req.ip_cm.", {"major_version": "majv", "minor_version": "minv", "ip_version": "ipv",
                                            "src_port": "sport", "src_addr": "sip4", "dst_addr": "dip4",
                                            "dst_port": "../serviceid.dport", "private_data": "private"}),
    "IP_CM6": ("infiniband.cm.req.ip_cm.", {"major_version": "majv", "minor_version": "minv", "ip_version": "ipv",
                                            "src_port": "sport", "src_addr": "sip6", "dst_addr": "dip6",
                                            "dst_port": "../serviceid.dport", "private_data": "private"}),
    "CPI": ("infiniband.classportinfo.", {
        "base_version": "baseversion", "class_version": "classversion", "capability_mask": "capabilitymask",
        "capability_mask2": "capabilitymask2", "resp_time_value": "resptimevalue", "redirect_gid": "redirectgid",
        "redirect_traffic_class": "redirecttc", "redirect_sl": "redirectsl", "redirect_flow_label": "redirectfl",
        "redirect_lid": "redirectlid", "redirect_pkey": "redirectpkey", "redirect_qpn": "redirectqp",
        "redirect_qkey": "redirectqkey", "trap_gid": "trapgid", "trap_traffic_class": "traptc", "trap_sl": "trapsl",
        "trap_flow_label": "trapfl", "trap_lid": "traplid", "trap_pkey": "trappkey", "trap_qpn": "trapqp",
        "trap_qkey": "trapqkey"}),
}
# Our fields that tshark does not have, or does not show whole.
NOT_SHOWN = {"vendor_id", "vendor_id_high", "vendor_id_middle", "vendor_id_low", "primary_flow_label", "primary_packet_rate",
             "alternate_flow_label",
             "alternate_packet_rate", "trap_hop_limit"}
PERFORMANCE_CLASS, PERFORMANCE_AT = 4, 64  # tshark shows ClassPortInfo in MADs of this class, at this byte


def tshark_name(kind, field):
    if field.startswith("mad."):
        name = HEADER.get(field[4:])
        return name and "infiniband.mad." + name
    prefix, names = FIELDS.get(kind, ("", {}))
    name = names.get(field)
    if name is None:
        return None
    if name.startswith("../"):
        return prefix.rstrip(".").rsplit(".", 1)[0] + "." + name[3:]
    return (prefix + name).rstrip(".")


def messages(program):
    """Each MAD's kind, bytes and fields."""
    output = subprocess.run([program, str(COUNT)], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        kind, mad, *fields = line.split()
        yield kind, bytes.fromhex(mad), dict(field.split("=") for field in fields)


def frame(kind, mad):
    if kind == "CPI":
        data = mad[24:24 + 72]
        mad = bytes([1, PERFORMANCE_CLASS, 1, 0x81]) + bytes(12) + b"\0\1" + bytes(PERFORMANCE_AT - 18) + data
        mad = mad.ljust(256, b"\0")
    bth = bytes([0x64, 0x40, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0])
    deth = struct.pack(">II", 0x80010000, 1)
    roce = bth + deth + mad + bytes(4)
    udp = struct.pack(">HHHH", 0xD872, 4791, 8 + len(roce), 0)
    if kind == "REQ":  # the GIDs of a REQ in an IPv4 packet are taken for IPv4 addresses
        ip = struct.pack(">IHBB16s16s", 6 << 28, len(udp) + len(roce), 17, 64, bytes(15) + b"\1", bytes(15) + b"\2")
        return bytes(12) + b"\x86\xdd" + ip + udp + roce
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + 8 + len(roce), 0, 0x4000, 64, 17, 0, bytes([10, 0, 0, 1]),
                     bytes([10, 0, 0, 2]))
    return bytes(12) + b"\x08\0" + ip + udp + roce


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for data in frames:
            file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def shown(path, names):
    """What tshark shows of each frame: name -> text."""
    command = ["tshark", "-r", path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for name in names:
        command += ["-e", name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [dict(zip(names, line.split("|"))) for line in output.splitlines()]


def same(ours, text):
    """A number, bytes, or an address."""
    if not text:
        return False
    if len(ours) in (8, 32) and ("." in text or ":" in text):
        return bytes.fromhex(ours) == ipaddress.ip_address(text).packed
    if text.startswith("0x") or text.isdigit() and len(ours) < 21:
        return int(ours) == int(text, 0)
    return ours == text.replace(":", "")


def check(kind, fields, view):
    compared = 0
    for field, value in fields.items():
        if field in ("mad.response", "mad.method"):
            continue
        name = tshark_name(kind, field)
        if name is None:
            known = kind not in FIELDS or field in NOT_SHOWN
            if not known:
                raise Failure(f"{kind}: no name for {field}")
            continue
        if not same(value, view[name]):
            raise Failure(f"{kind}: {field} is {value}, tshark shows {name} {view[name]!r}")
        compared += 1
    return compared


def dissected(program, path):
    """Kind and fields of each MAD in a capture; None for other frames."""
    output = subprocess.run([program, "dissect", "--json", path], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines()[:-1]:
        mad = json.loads(line).get("mad")
        if mad is None:
            yield None
            continue
        fields = {"mad." + name: value for name, value in mad.items() if not isinstance(value, dict)}
        kind = mad["cm"].pop("message")
        ip_cm = mad["cm"].pop("ip_cm", None)
        fields.update(mad["cm"])
        if ip_cm and kind == "REQ":
            del fields["private_data"], fields["service_id"]  # tshark shows the parts instead
        yield kind, fields


def as_written(value):
    """A value of `uroce dissect`, in the form of cm_messages."""
    if isinstance(value, int):
        return str(value)
    if value.startswith("0x"):
        return str(int(value, 0))
    if ":" in value or "." in value:
        return ipaddress.ip_address(value).packed.hex()
    return value


def check_capture(program, path):
    """All fields of all MADs; returns the kinds."""
    kinds = []
    names = sorted({tshark_name(kind, field) for kind in FIELDS for field in FIELDS[kind][1]} |
                   {"infiniband.mad." + name for name in HEADER.values()})
    for found, view in zip(dissected(program, path), shown(path, names)):
        if found is None:
            continue
        kind, fields = found
        # The GIDs of a REQ in an IPv4 packet have fields of their own; bytes may be cut off at the last one in use.
        fields = {field: as_written(value) for field, value in fields.items()
                  if not field.endswith("gid") and field not in ("private_data", "info")}
        kinds += [kind] if check(kind, fields, view) >= len(HEADER) else []
    return kinds


def main():
    if not shutil.which("tshark"):
        print("1..0 # SKIP no tshark")
        return 0
    all_messages = list(messages(sys.argv[1]))
    names = sorted({name for kind, _, fields in all_messages for field in fields
                    if (name := tshark_name(kind, field))})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mads.pcap")
        write_pcap(path, [frame(kind, mad) for kind, mad, _ in all_messages])
        views = shown(path, names)
    if len(views) != len(all_messages):
        views = [{}] * len(all_messages)

    def checked(kind):
        compared = sum(check(k, fields, view) for (k, _, fields), view in zip(all_messages, views) if k == kind)
        expected = COUNT * (len(FIELDS[kind][1]) if kind in FIELDS else len(HEADER))
        if compared < expected:
            raise Failure(f"only {compared} fields of {expected} were compared")

    def captures():
        kinds = []
        for name in sorted(os.listdir(sys.argv[3])):
            if name.startswith("cm-") and name.endswith(".pcap"):
                kinds += check_capture(sys.argv[2], os.path.join(sys.argv[3], name))
        missing = {"REQ", "REP", "RTU", "REJ", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"} - set(kinds)
        if missing or len(kinds) < 50:
            raise Failure(f"{len(kinds)} MADs, without {missing}")

    return run_points([("uroce dissect shows the kernel's messages as tshark does", captures)] + [
                      (f"{kind}: tshark shows each field as it was written", lambda kind=kind: checked(kind))
                       for kind in dict.fromkeys(kind for kind, _, _ in all_messages)])


if __name__ == "__main__":
    sys.exit(main())
