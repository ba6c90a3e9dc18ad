#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Circles of files that call each other: circles.py [--all] ARCHIVE...

The nodes of the graph are the object files of one static library. An edge leads from an object that needs a
symbol to the object that defines it. A circle is a strongly connected component of that graph: none of its
files can be read, tested or replaced without the others. A library fails when it has a circle of more files
than LIMITS allows.

For a circle that is too large, the test prints its files, the edges that point against the best order of its
files that a greedy search finds ("closes": without these edges there would be no circle), and all of its other
edges. --all prints these for every circle. Inlined calls are not seen, and neither are calls by pointer.

TAP; the archives are those of a build folder, build/lib/liburoce_*.a.
"""
import collections
import re
import subprocess
import sys

# Files in the largest circle of each library. A change may lower a limit and should not raise one.
LIMITS = {
    "abi": 1,
    "adopt": 4,
    "base": 1,
    "cc": 1,
    "client": 4,
    "cm": 1,
    "dataplane": 1,
    "device": 1,
    "encap": 1,
    "inject": 1,
    "fabric": 1,
    "lab": 2,
    "mem": 2,
    "net": 1,
    "queue": 1,
    "steer": 1,
    "transport": 1,
    "wire": 2,
}


# ---- the graph ----


def symbols(archive):
    """Per object file of an archive: the symbols it defines, and those it needs."""
    defined, needed = collections.defaultdict(set), collections.defaultdict(set)
    library = re.search(r"liburoce_(\w+)\.a$", archive)[1]
    output = subprocess.run(["nm", "-A", archive], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        row = re.match(r".*?:(?:.*/)?([^/:]+)\.o: *[0-9a-f]* ([A-Za-z]) (\S+)$", line)
        if not row:
            continue
        member = row[1].removeprefix(library + "_")
        if row[2] in "Uwv":
            needed[member].add(row[3])
        elif row[2].isupper():
            defined[member].add(row[3])
    return defined, needed


def edges_of(defined, needed):
    """{from: {to: the symbols that `from` needs of `to`}}"""
    home = {symbol: member for member in defined for symbol in defined[member]}
    edges = {member: collections.defaultdict(set) for member in set(defined) | set(needed)}
    for member in needed:
        for symbol in needed[member]:
            if home.get(symbol, member) != member:
                edges[member][home[symbol]].add(symbol)
    return edges


def circles(edges):
    """The strongly connected components of more than one node, the largest first: Tarjan, without recursion."""
    index, low, stack, found = {}, {}, [], []
    for root in sorted(edges):
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        path = [(root, iter(sorted(edges[root])))]
        while path:
            node, successors = path[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    path.append((successor, iter(sorted(edges[successor]))))
                    break
                if successor in stack:
                    low[node] = min(low[node], index[successor])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    del stack[at:]
    return sorted((circle for circle in found if len(circle) > 1), key=len, reverse=True)


def order(circle, edges):
    """The circle's files, callers first, so that few symbols are needed backwards (Eades, Lin and Smyth)."""
    left, first, last = set(circle), [], []

    def weight(froms, tos):
        return sum(len(edges[f][t]) for f in froms for t in tos if f != t and t in edges[f])

    while left:
        sinks = [node for node in sorted(left) if not weight([node], left)]
        sources = [node for node in sorted(left) if not weight(left, [node])]
        if sinks:
            last.insert(0, sinks[0])
        elif sources:
            first.append(sources[0])
        else:
            first.append(max(sorted(left), key=lambda node: weight([node], left) - weight(left, [node])))
        left -= {*first, *last}
    return first + last


def describe(circle, edges):
    lines = [f"{len(circle)} files: " + " ".join(circle)]
    rank = {node: i for i, node in enumerate(order(circle, edges))}
    pairs = [(f, t) for f in circle for t in edges[f] if t in rank]
    for f, t in sorted(pairs, key=lambda pair: (rank[pair[0]] < rank[pair[1]], rank[pair[0]], rank[pair[1]])):
        what = "calls " if rank[f] < rank[t] else "closes"
        lines.append(f"  {what} {f} -> {t}: {' '.join(sorted(edges[f][t]))}")
    return lines


# ---- the tests ----


def self_test():
    """Circles that are known: two that share no file, a file between them, one that calls itself only."""
    defined = {name: {f"{name}_1", f"{name}_2"} for name in "abcdefgh"}
    needed = {"a": {"b_1"}, "b": {"c_1", "c_2"}, "c": {"a_1", "d_1", "puts"}, "d": {"e_2"}, "e": {"f_1"},
              "f": {"e_1", "g_1"}, "g": {"g_2"}, "h": {"a_1", "f_2"}}
    edges = edges_of(defined, needed)
    if circles(edges) != [["a", "b", "c"], ["e", "f"]]:
        return [f"found {circles(edges)}"]
    if circles({"a": {}, "b": {"a": {"x"}}}):
        return ["found a circle where there is none"]
    closing = [line for line in describe(["a", "b", "c"], edges) if "closes" in line]
    if len(closing) != 1:
        return [f"{len(closing)} edges close a simple circle"] + closing
    return []


def check(archive, everything):
    """Lines about what is wrong, and lines about the rest."""
    library = re.search(r"liburoce_(\w+)\.a$", archive)[1]
    edges = edges_of(*symbols(archive))
    if not edges:
        return [f"no object files in {archive}"], []
    if library not in LIMITS:
        return [f"LIMITS does not name {library}"], []
    found = circles(edges)
    wrong = [line for circle in found if len(circle) > LIMITS[library] for line in describe(circle, edges)]
    other = [line for circle in found if len(circle) <= LIMITS[library] for line in describe(circle, edges)]
    return wrong, other if everything else []


def main():
    everything = "--all" in sys.argv
    archives = [argument for argument in sys.argv[1:] if argument != "--all"]
    tests = [("a known circle is found", self_test(), [])]
    for archive in archives:
        library = re.search(r"liburoce_(\w+)\.a$", archive)[1]
        limit = LIMITS.get(library, 1)
        tests.append((f"lib/{library} has no circle of more than {limit} file{'s' * (limit > 1)}",
                      *check(archive, everything)))
    print(f"1..{len(tests)}")
    for number, (name, wrong, other) in enumerate(tests, 1):
        print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
        for line in wrong + other:
            print("# " + line)
    return 1 if any(wrong for _, wrong, _ in tests) else 0


if __name__ == "__main__":
    sys.exit(main())
