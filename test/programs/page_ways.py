# SPDX-License-Identifier: BSD-3-Clause
"""The table of how the pages' commands are run, test/programs/pages.txt. Standard library only."""
import dataclasses
import re

# Words that stand alone, and words with an argument.
SETTINGS = ("plain", "loop", "objects", "private")
FLAGS = SETTINGS + ("stays", "brief", "name", "text")
WITH = ("put", "exit", "has", "until", "ready", "at", "not", "elsewhere", "file", "setup", "before", "needs")


@dataclasses.dataclass
class Way:
    line: int
    page: str
    pattern: str
    fields: list = dataclasses.field(default_factory=list)
    met: int = 0

    def fits(self, command):
        if self.pattern.startswith("~"):
            return re.fullmatch(self.pattern[1:], command, re.DOTALL) is not None
        return self.pattern == command.replace("\n", " \\n ")

    def all(self, name):
        return [value for key, value in self.fields if key == name]

    def get(self, name, otherwise=None):
        return (self.all(name) or [otherwise])[0]

    def has(self, name):
        return any(key == name for key, _ in self.fields)

    def setting(self):
        return next((key for key, _ in self.fields if key in SETTINGS), None)

    def is_reason(self):
        return any(self.has(name) for name in ("not", "elsewhere", "name"))


class Malformed(Exception):
    pass


def parse(text):
    ways, page = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("# "):
            continue
        if line.startswith("= "):
            page = line[2:].strip()
        elif not line.startswith("    "):
            ways.append(Way(number, page, line.rstrip()))
        else:
            for field in re.split(r" {2,}", line.strip()):
                name, _, value = field.partition(" ")
                if name not in FLAGS + WITH or (name in WITH) != bool(value):
                    raise Malformed(f"pages.txt:{number}: {field}")
                ways[-1].fields.append((name, value))
    return ways


class Table:
    def __init__(self, text):
        self.ways = parse(text)

    def way(self, page, command):
        """The command's line: one of its page before one of all pages, and of equal lines each for one command."""
        fitting = [way for way in self.ways if way.page == page and way.fits(command)]
        fitting = fitting or [way for way in self.ways if way.page == "*" and way.fits(command)]
        if not fitting:
            return None
        chosen = next((way for way in fitting if not way.met), fitting[-1])
        chosen.met += 1
        return chosen

    def unmet(self):
        return [way for way in self.ways if not way.met]

    def text(self, page, first):
        """The line for a block that is no command's, by the block's first line."""
        fitting = [way for way in self.ways if way.page == page and (way.has("text") or way.has("file")) and way.fits(first)]
        chosen = next((way for way in fitting if not way.met), fitting[-1] if fitting else None)
        if chosen:
            chosen.met += 1
        return chosen


STAYS = Way(0, "", "", [("stays", "")])
ANYHOW = Way(0, "", "", [("stays", ""), ("exit", "*")])
