# SPDX-License-Identifier: BSD-3-Clause
"""Finds the definitions of a C file: functions, objects with an initialiser, structs, unions, enums, macros.

A reader of this project's C, not a compiler: it follows brackets, comments, strings and preprocessor lines.
"""
import re
import typing

TOKENS = re.compile(r"""
    /\*.*?\*/ | //[^\n]*                       # comments
  | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'  # strings, characters
  | ^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*         # preprocessor lines, with those that continue them
  | [{}()\[\];] | \w+ | \S
""", re.X | re.S | re.M)
ATTRIBUTE = re.compile(r"__attribute__ \( \( (?:[^()]|\([^()]*\))* \) \)")


class Definition(typing.NamedTuple):
    names: tuple
    start: int
    end: int


def is_comment(token):
    return token.startswith(("/*", "//"))


def is_directive(token):
    return token.lstrip().startswith("#") and len(token) > 1


def tokens(text, start=0):
    """(token, start, end) of each token: neither comments nor white space count, nor do the backslashes
    that continue a preprocessor line."""
    found = []
    for match in TOKENS.finditer(text):
        token, at = match.group(), start + match.start()
        if is_directive(token):
            after = token.index("#") + 1
            found += [("#", at + after - 1, at + after)] + tokens(token[after:], at + after)
        elif token != "\\" and not is_comment(token):
            found.append((token, at, at + len(token)))
    return found


def normalised(text):
    return " ".join(token for token, _, _ in tokens(text))


def occurrences(text, part):
    """(start, end) of each place of the text that has the tokens of part."""
    words, wanted = tokens(text), [token for token, _, _ in tokens(part)]
    return [(words[i][1], words[i + len(wanted) - 1][2]) for i in range(len(words) - len(wanted) + 1)
            if [word for word, _, _ in words[i:i + len(wanted)]] == wanted]


def macro(token, start):
    name = re.match(r"\s*#\s*define\s+(\w+)", token)
    return [Definition((name[1],), start, start + len(token))] if name else []


def outside_brackets(text):
    """The text without what is in (), [] or {}."""
    kept, depth = [], 0
    for c in text:
        depth += c in "([{"
        if not depth:
            kept.append(c)
        depth -= c in ")]}"
    return "".join(kept)


def names_of(item):
    """The names that an item of a file's outermost level defines: none if it only declares."""
    item = ATTRIBUTE.sub("", item)
    brace = item.find("{")
    head = item if brace < 0 else item[:brace]
    plain = outside_brackets(head)
    tagged = re.search(r"\b(struct|union|enum)\b ?(\w*) ?$", plain)
    if "=" in plain:
        return (re.search(r"(\w+) *$", plain.split("=")[0])[1],)
    if tagged:
        return named_type(tagged, item[brace:]) if brace >= 0 else ()
    function = re.search(r"(\w+) *$", plain)
    return (function[1],) if function and brace >= 0 else ()


def named_type(tagged, body):
    """Its tag, and the object that is defined with it; of an enum with neither, the enumerators."""
    after = re.match(r" *(\w+)", outside_brackets(body))
    names = tuple(name for name in (tagged[2], after and after[1]) if name)
    if names or tagged[1] != "enum":
        return names
    return tuple(re.findall(r"(?:^|,) *(\w+)", outside_brackets(body.strip(" {};"))))


def definitions(text):
    """All of them, in order. A macro within another definition is one of its own, too."""
    found, item, depth, start = [], [], 0, None
    for match in TOKENS.finditer(text):
        token = match.group()
        if is_comment(token):
            continue
        if is_directive(token):
            found += macro(token, match.start())
            continue
        start = match.start() if start is None else start
        item.append('""' if token[0] in "\"'" else token)  # which may hold brackets
        depth += (token in "([{") - (token in ")]}")
        if depth == 0 and (token == ";" or token == "}" and is_function(item)):
            names = names_of(" ".join(item))
            found += [Definition(names, start, match.end())] if names else []
            item, start = [], None
    return sorted(found, key=lambda d: d.start)


def is_function(item):
    """Whether an item that a brace ended is a function: all others go on to a semicolon."""
    head = outside_brackets(ATTRIBUTE.sub("", " ".join(item[:item.index("{")])))
    return "=" not in head and not re.search(r"\b(struct|union|enum)\b ?\w* ?$", head)
