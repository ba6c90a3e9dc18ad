# SPDX-License-Identifier: BSD-3-Clause
"""What the tests noticed, as doc/generated/mutation.md remembers it: a row per mutation.

A row ends with a digest of the mutation's texts and of the definition that it changes, so that it stays
valid while other code changes, or while this code only moves.
"""
import re
import typing

PAGE = "doc/generated/mutation.md"
HEAD = """# Mutation testing

Tests that pass show little unless they fail when the code is wrong. `test/mutation/mutations.txt`
holds {count} faults, each a small change of the engine or of the parsers and memory checks below it:
a comparison the other way round, a check left out, a count one off, a state not changed, a wrong row
of a table. `test/mutation/run.py` applies them one at a time and runs the tests that need no network
until one fails: unit tests, scripts, directed simulations, {seeds} seeds of the random simulation,
replays of the kernel's captures.

{caught} of {count} are caught; {left}.

This page is generated: `test/mutation/run.py . --write`, with `--missing` only what is new or has
changed. The last column is a digest of the function and of the fault in it. In the `mutation` suite a
test runs a sample of the faults; nightly all of them. `scripts/tests-of` lists the tests that guard a
file or a function.
"""
ROW = re.compile(r"^\| `(\w+)` \| `\w+` \| .*? \| (?:(.*?): `(.*)`|\*\*nothing\*\*) \| (\w+) \|$", re.M)


class Result(typing.NamedTuple):
    program: typing.Optional[str]  # None: nothing noticed the fault
    how: typing.Optional[str]
    digest: str


def read(root):
    """Results by mutation."""
    path = root / PAGE
    return {name: Result(program or None, how or None, digest)
            for name, program, how, digest in ROW.findall(path.read_text() if path.exists() else "")}


def write(root, table, results, seeds):
    path = root / PAGE
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(table, results, seeds))


def page(table, results, seeds):
    survivors = [m for m in table if not results[m.name].program]
    left = "none survives" if not survivors else f"{len(survivors)} survive{'s' if len(survivors) == 1 else ''}"
    lines = [HEAD.format(count=len(table), caught=len(table) - len(survivors), left=left, seeds=seeds)]
    for section in dict.fromkeys(m.section for m in table):
        lines += [f"## {section[:1].upper()}{section[1:]}", "",
                  "| fault | in | what is broken | caught by | digest |", "|---|---|---|---|---|"]
        lines += [row(m, results[m.name]) for m in table if m.section == section] + [""]
    if survivors:
        lines += ["## Survivors", "", "| fault | why nothing can notice it |", "|---|---|"]
        lines += [f"| `{m.name}` | {m.survives or '**a test is missing**'} |" for m in survivors] + [""]
    return "\n".join(lines)


def row(m, result):
    by = f"{result.program}: `{result.how}`" if result.program else "**nothing**"
    return f"| `{m.name}` | `{m.function}` | {m.about} | {by} | {result.digest} |"


def stale(table, results):
    """Mutations whose code has changed since their results, or that have none."""
    return [m for m in table if m.name not in results or results[m.name].digest != m.digest]


def faults(root, table, results, seeds):
    """What is wrong with the page."""
    unknown = [m.name for m in table if m.name not in results]
    if unknown:
        return [f"{PAGE} lacks {', '.join(unknown)}: run test/mutation/run.py . --missing --write"]
    if (root / PAGE).read_text() != page(table, results, seeds):
        return [f"{PAGE} is of another table: run test/mutation/run.py . --rewrite"]
    return []
