# SPDX-License-Identifier: BSD-3-Clause
"""The rounds. Each round runs every comparison of a group once, its two sides one after the other."""
import sys
import time

import figures
import uroce_kit as kit
import uroce_net as net

TOO_LATE = "no time was left"


def chosen(groups, names):
    """The groups with the comparisons that match a name: the name of a group, or a part of a comparison's name."""
    picked = []
    for group in groups:
        comparisons = [c for c in group.comparisons
                       if not names or any(name == group.name or name in c.name for name in names)]
        if comparisons:
            picked.append((group, comparisons))
    return picked


class Clock:
    """Time limits: after `end` no further round begins, after `last` no first round either."""

    def __init__(self, seconds):
        self.start = time.monotonic()
        self.end = self.last = self.start + seconds

    def passed(self):
        return time.monotonic() - self.start

    def over(self):
        return time.monotonic() > self.end

    def all_over(self):
        return time.monotonic() > self.last


def first_line(problem):
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def one(comparison, result, rig, say):
    try:
        result.rounds.append(comparison.measure(rig))
    except (kit.Failure, OSError, ValueError, KeyError, TimeoutError) as problem:
        result.problem = first_line(problem)
        say(f"  {comparison.name}: {problem}")


def measure_group(group, comparisons, rounds, clock, say):
    """Results in the order of the comparisons, including those that failed."""
    results = [c.result() for c in comparisons]
    for comparison, result in zip(comparisons, results):
        result.problem = comparison.missing() or (TOO_LATE if clock.all_over() else None)
    able = [(c, r) for c, r in zip(comparisons, results) if not r.problem]
    if not able:
        return results
    try:
        with group.rig() as rig:
            for number in range(rounds):
                if number and clock.over():
                    break
                for comparison, result in able:
                    if clock.all_over() and not result.rounds:
                        result.problem = result.problem or TOO_LATE
                    if not result.problem and not (number and comparison.once):
                        one(comparison, result, rig, say)
    except (kit.Failure, net.Unavailable, OSError) as problem:
        for _, result in able:
            result.problem = first_line(problem)
        say(f"  {group.name}: {problem}")
    return results


def measure(groups, rounds, clock, say=lambda text: print(text, file=sys.stderr, flush=True)):
    """[(title, results)]. Prints each result when its group is done."""
    done = []
    share = clock.end - clock.start
    for number, (group, comparisons) in enumerate(groups):
        # A slow group does not use up the time of later groups.
        own = Clock(0)
        own.last = clock.end
        own.end = clock.start + share * (number + 1) / len(groups) + 5
        results = measure_group(group, comparisons, rounds, own, say)
        done.append((group.title, results))
        print(f"\n{group.title}")
        for result in results:
            print("  " + screen_line(result), flush=True)
    return done


def screen_line(result):
    if not result.rounds:
        return f"{result.name}: not measured: {result.problem}"
    text = f"{result.name}: {figures.number(result.value())} {result.unit}"
    if result.other_value() is not None:
        text += f"; {result.other} {figures.number(result.other_value())}; ratio {figures.spread(result.ratios())}"
    for target in result.targets:
        verdict = target.verdict(result.value(), result.ratio()).replace("*", "")
        text += f"; {target.text(result.unit)}: {verdict}"
    if result.problem:
        text += f"; {len(result.rounds)} rounds only: {result.problem}"
    return text
