# SPDX-License-Identifier: BSD-3-Clause
"""A device in a process, and in children of each kind that multiprocessing can start."""
import multiprocessing

import pyverbs.device
from pyverbs.mr import MR
from pyverbs.pd import PD
import pyverbs.enums as enums


def child(queue):
    with pyverbs.device.Context(name="uroce0") as context, PD(context) as domain:
        region = MR(domain, 4096, enums.IBV_ACCESS_LOCAL_WRITE)
        region.write("a" * 8, 8)
        queue.put(region.read(8, 0) == b"a" * 8)
        region.close()


if __name__ == "__main__":
    with pyverbs.device.Context(name="uroce0"):
        for method in ("fork", "spawn", "forkserver"):
            kind = multiprocessing.get_context(method)
            queue = kind.Queue()
            process = kind.Process(target=child, args=(queue,))
            process.start()
            assert queue.get(timeout=30)
            process.join()
            assert process.exitcode == 0
    print("children right")
