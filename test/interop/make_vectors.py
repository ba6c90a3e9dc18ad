# SPDX-License-Identifier: BSD-3-Clause
"""Captures of uroce and rxe, each in turn the requester, for test/vectors: one small file per operation and IP version.

usage: make_vectors.py --build DIR FOLDER"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
sys.path.insert(0, os.path.join(HERE, "..", "net"))
import image
import peer
import run_net as wire
import uroce_kit as kit

# Messages of three packets, the last of them with padding.
SEVERAL = "-F -x {gid} -u 18 -n 5 -m 512 -s 1027"
KINDS = {
    "rc-send": f"ib_send_bw {SEVERAL} -e",
    "rc-write": f"ib_write_bw {SEVERAL}",
    "rc-read": f"ib_read_bw {SEVERAL} -e -o 16",
    "rc-atomic": "ib_atomic_bw -F -x {gid} -u 18 -n 5 -e -o 16",
    "uc-send": f"ib_send_bw {SEVERAL} -e -c UC",
    "uc-write": f"ib_write_bw {SEVERAL} -c UC",
    "ud-send": "ib_send_bw -F -x {gid} -n 5 -s 259 -e -c UD",
}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("folder")
    arguments = options.parse_args()
    kit.die_on_signals()
    os.makedirs(arguments.folder, exist_ok=True)
    guest = image.Image(os.path.join(arguments.build, "interop"))
    with peer.Link(kit.Build(arguments.build), guest, kit.scratch_folder(), peer.Tap) as link:
        for kind, command in KINDS.items():
            for version in (4, 6):
                for ours, requester in (("client", "uroce"), ("server", "rxe")):
                    path = os.path.join(arguments.folder, f"{requester}-{kind}-v{version}.pcap")
                    capture = wire.Capture(link.port, path)
                    try:
                        link.pair(command, ours, version)
                    finally:
                        capture.stop()
                    print(path, os.path.getsize(path), flush=True)


if __name__ == "__main__":
    main()
