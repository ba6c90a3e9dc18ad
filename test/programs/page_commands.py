# SPDX-License-Identifier: BSD-3-Clause
"""The commands that the project's pages show: the lines of their code blocks, and words in backticks that are a whole command.
Standard library only."""
import dataclasses
import glob
import os
import re

# In a sentence or a table only these begin a command line; other words in backticks are names of things.
SPAN = re.compile(r"`((?:uroce|uroced|uroce-perf|scripts/[\w-]+) [^`]+)`")


@dataclasses.dataclass
class Command:
    page: str
    line: int
    text: str
    shown: list = dataclasses.field(default_factory=list)  # the output below it


@dataclasses.dataclass
class Block:
    """Consecutive lines of code. prompted: commands are those with a `$`, and the others are their output."""
    page: str
    line: int
    lines: list

    def prompted(self):
        return self.lines[0].startswith("$ ")

    def text(self):
        return "\n".join(self.lines) + "\n"


def pages(root):
    """The files that doc/site/pages.txt names, in its order."""
    found = []
    with open(os.path.join(root, "doc/site/pages.txt")) as file:
        for line in file:
            if line.startswith("  "):
                found += sorted(glob.glob(line.strip(), root_dir=root))
    return found


def blocks(page, text):
    """The blocks of code. A line without text stays in a block whose commands show output, or that is a program's text."""
    current, empty, fenced = None, 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("```"):
            fenced = not fenced
            if not fenced and current:
                yield current
                current = None
            continue
        if fenced or line.startswith("    "):
            line = line if fenced else line[4:]
            if current and empty:
                current.lines += [""] * empty
            if not current:
                current = Block(page, number, [])
            current.lines.append(line)
            empty = 0
        elif not line and current:
            empty += 1
        elif current:
            yield current
            current, empty = None, 0
    if current:
        yield current


def uncommented(line):
    """Without the comment behind it, which begins with two spaces or a tab before its `#`."""
    return re.sub(r"\s{1,}#\s.*$", "", line).rstrip()


def open_ended(text):
    """Whether the command goes on in the next line."""
    words = re.findall(r"\b(?:do|done)\b", re.sub(r"'[^']*'|\"[^\"]*\"", "", text))
    return text.endswith(("\\", "&&", "||", "|")) or words.count("do") > words.count("done")


def commands(block):
    """Those of a block, in order."""
    found, pending = [], None
    for number, line in enumerate(block.lines, block.line):
        if block.prompted() and not pending:
            if not line.startswith("$ "):
                found[-1].shown.append(line)
                continue
            line = line[2:]
        line = uncommented(line)
        if not line:
            continue
        if pending:
            pending.text += "\n" + line
        else:
            pending = Command(block.page, number, line)
        if not open_ended(pending.text):
            found.append(pending)
            pending = None
    return found + ([pending] if pending else [])


def spans(page, text):
    """The commands in backticks outside of blocks, each once."""
    seen = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("    "):
            continue
        for words in SPAN.findall(line):
            words = words.replace("\\|", "|")
            if words not in seen:
                seen.add(words)
                yield Command(page, number, words)


def heads(line):
    """Of a line of shown output: what the command must print again. A line of words alone is one of column heads; of others the
    first word is a name."""
    words = line.split()
    if not words or words == ["..."]:
        return None
    if len(words) > 1 and not re.search(r"\d", re.sub(r"[pP]\d[\d.]*_", "", line)):
        return " ".join(words)
    return words[0] if not re.search(r"\d", words[0]) else None


def unlike(shown, output):
    """Those lines of shown output that nothing of the output is like."""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    missing = []
    for line in shown:
        head = heads(line)
        if head and not any(text == head or text.startswith(head + " ") or text.startswith(head) for text in printed):
            missing.append(line)
    return missing
