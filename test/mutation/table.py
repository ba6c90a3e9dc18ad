# SPDX-License-Identifier: BSD-3-Clause
"""The faults of mutations.txt, and the definitions of the source tree that they are faults of."""
import collections
import hashlib
import sys

import definitions

LIBRARIES = ("base", "wire", "encap", "inject", "net", "steer", "fabric", "mem", "abi", "cm", "queue", "cc", "transport", "lab",
             "dataplane", "device")


class Mutation:
    def __init__(self, name, function, section):
        self.name, self.function, self.section = name, function, section
        self.about = self.survives = ""
        self.old, self.new = [], []
        self.path = self.mutant = self.digest = None  # known when the text is found

    def find(self, tree):
        """Finds the text in the source tree. Returns what is wrong, or None."""
        places = [(d, span) for d in tree.named(self.function) for span in d.occurrences("\n".join(self.old))]
        if len(places) != 1:
            return f"its text is {len(places)} times in {self.function}" + "".join(f", {d.path}" for d, _ in places)
        definition, (start, end) = places[0]
        mutant = definition.file[:start] + "\n".join(self.new) + definition.file[end:]
        self.path, self.mutant = definition.path, mutant
        end = len(mutant) - len(definition.file) + definition.end
        self.digest = digest(definition.text, mutant[definition.start:end])
        return None


def digest(*texts):
    """Of the texts' tokens: comments and white space may change."""
    return hashlib.sha256("\0".join(map(definitions.normalised, texts)).encode()).hexdigest()[:8]


class Definition:
    def __init__(self, path, file, start, end):
        self.path, self.file, self.start, self.end = path, file, start, end

    @property
    def text(self):
        return self.file[self.start:self.end]

    def occurrences(self, part):
        return [(self.start + start, self.start + end)
                for start, end in definitions.occurrences(self.text, part)]


class Tree:
    """The definitions of the libraries, by name. Where a file is plays no part."""

    def __init__(self, root):
        self.by_name, self.by_path = collections.defaultdict(list), collections.defaultdict(list)
        for library in LIBRARIES:
            for path in sorted((root / "lib" / library).rglob("*.[ch]")):
                self.add(path.relative_to(root), path.read_text())

    def add(self, path, text):
        for names, start, end in definitions.definitions(text):
            for name in names:
                self.by_name[name].append(Definition(path, text, start, end))
                self.by_path[path].append(name)

    def named(self, name):
        return self.by_name.get(name, [])


def read(path):
    """Entries are separated by empty lines; see the head of the table."""
    table, entry, section = [], None, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("# ---- "):
            section = line.strip("#- ")
        if not line or line.startswith("#"):
            entry = None if not line else entry
            continue
        word, _, rest = line.partition(" ")
        if word == "mutation":
            entry = Mutation(*rest.split(), section)
            table.append(entry)
        elif entry and word == "about":
            entry.about = rest
        elif entry and word == "survives":
            entry.survives = rest
        elif entry and word in "-+":
            (entry.old if word == "-" else entry.new).append(rest)
        else:
            sys.exit(f"{path.name}:{number}: not understood: {line}")
    return table


def find_all(table, tree):
    """Finds each mutation's text. Returns what is wrong with the table."""
    names = collections.Counter(m.name for m in table)
    faults = [f"{name}: more than once" for name, count in names.items() if count > 1]
    for m in table:
        wrong = "no description or no text" if not m.about or not m.old else m.find(tree)
        if not wrong and m.old == m.new:
            wrong = "changes nothing"
        faults += [f"{m.name}: {wrong}"] if wrong else []
    return faults
