#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints "PASSED FAILED SKIPPED" for a JUnit file of meson: counts every test case, including those inside one program."""
import sys
import xml.etree.ElementTree as ElementTree

passed = failed = skipped = 0
for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
    if case.find("failure") is not None or case.find("error") is not None:
        failed += 1
    elif case.find("skipped") is not None:
        skipped += 1
    else:
        passed += 1
print(passed, failed, skipped)
