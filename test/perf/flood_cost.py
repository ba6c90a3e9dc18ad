#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions that the engine takes for each frame of a flood, by kind, counted by callgrind.

usage: flood_cost.py --build DIR

The answers that frames cause are included; a punt ends at the door of the slow path."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "bench"), os.path.join(HERE, "..", "kit")]
import budgets
import uroce_kit as kit

BURSTS, BURST = 200, 32
SIZES = (64, 1024)



def count(build, size):
    """{kind: instructions a frame}."""
    program = os.path.join(build, "test/perf/flood_cost")
    seen = budgets.callgrind(program, (BURSTS, size))
    return {name[5:]: cost / (BURSTS * BURST) for name, (_, cost) in seen.items() if name.startswith("cost_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    options = parser.parse_args()
    counts = {size: count(options.build, size) for size in SIZES}
    print("| frame | " + " | ".join(f"{size} bytes" for size in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for kind in counts[SIZES[0]]:
        print(f"| {kind} | " + " | ".join(f"{counts[size][kind]:.0f}" for size in SIZES) + " |")


if __name__ == "__main__":
    try:
        main()
    except kit.Failure as failure:
        sys.exit(f"flood_cost.py: {failure}")
