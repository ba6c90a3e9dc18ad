# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a fuzz target's first inputs, one file each."""
import hashlib
import pathlib
import sys


def write(samples):
    """For scripts that are called with a folder of vectors and the corpus's folder."""
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for sample in samples:
        (folder / hashlib.sha1(sample).hexdigest()).write_bytes(sample)
