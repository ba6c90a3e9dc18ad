# SPDX-License-Identifier: BSD-3-Clause
"""Medians, ratios, targets, and the text of doc/performance.md. No I/O except files."""
import os
import statistics

BEGIN = "<!-- figures: begin; scripts/bench writes what is between these lines -->"
END = "<!-- figures: end -->"


class Target:
    """A bound on the median of our value, or on the median ratio of our value to the other one."""

    def __init__(self, of, at_least=None, at_most=None):
        if of not in ("value", "ratio") or (at_least is None) == (at_most is None):
            raise ValueError("a target is at_least or at_most, of value or ratio")
        self.of = of
        self.upward = at_least is not None
        self.bound = at_least if self.upward else at_most

    def score(self, value, ratio):
        """The value as a multiple of the bound; a target is met from 1 on. None: there is no value."""
        reached = value if self.of == "value" else ratio
        if reached is None or reached <= 0:
            return None
        return reached / self.bound if self.upward else self.bound / reached

    def text(self, unit):
        sign = "≥" if self.upward else "≤"
        return f"{sign} {number(self.bound)}" + (f" {unit}" if self.of == "value" else " ×")

    def verdict(self, value, ratio):
        score = self.score(value, ratio)
        if score is None:
            return "not measured"
        if score >= 1:
            return "met"
        reached = value if self.of == "value" else ratio
        missed = abs(reached - self.bound) / self.bound * 100
        return f"**missed by {missed:.0f} %**" if missed >= 1 else f"**missed by {missed:.1f} %**"

    def as_dict(self):
        return {"of": self.of, "at_least" if self.upward else "at_most": self.bound}


class Result:
    """The rounds of a comparison: pairs of our number and the other one (None without another side)."""

    def __init__(self, name, title, unit, other="", targets=(), rounds=(), commands=(), problem=None):
        self.name = name
        self.title = title
        self.unit = unit
        self.other = other
        self.targets = list(targets)
        self.rounds = [tuple(pair) for pair in rounds]
        self.commands = list(commands)
        self.problem = problem

    def value(self):
        return median(ours for ours, _ in self.rounds)

    def other_value(self):
        return median(theirs for _, theirs in self.rounds)

    def ratios(self):
        return [ours / theirs for ours, theirs in self.rounds if theirs]

    def ratio(self):
        """The median of the rounds' ratios, since the two sides of a round ran one after the other."""
        return median(self.ratios())

    def score(self):
        """The lowest score of its targets; None without a target."""
        scores = [target.score(self.value(), self.ratio()) for target in self.targets]
        return min((score for score in scores if score is not None), default=None)

    def missed(self):
        return [target for target in self.targets if (target.score(self.value(), self.ratio()) or 1) < 1]

    def as_dict(self):
        return {"name": self.name, "title": self.title, "unit": self.unit, "other": self.other,
                "targets": [target.as_dict() for target in self.targets], "rounds": self.rounds,
                "commands": self.commands, "problem": self.problem, "value": self.value(),
                "other_value": self.other_value(), "ratio": self.ratio(),
                "verdicts": [target.verdict(self.value(), self.ratio()) for target in self.targets]}

    @staticmethod
    def from_dict(d):
        return Result(d["name"], d["title"], d["unit"], d["other"], [Target(**target) for target in d["targets"]],
                      d["rounds"], d["commands"], d["problem"])


def median(values):
    """The median of the values that are not None; None if there is none."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def number(value):
    """Three digits, without an exponent."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}".removesuffix(".0")
    text = f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def spread(ratios):
    """The median, and with several ratios the lowest and the highest."""
    if not ratios:
        return ""
    text = number(median(ratios))
    return text if len(ratios) == 1 else f"{text} ({number(min(ratios))} – {number(max(ratios))})"


HEAD = ("| what | unit | uroce | other | | uroce / other (all rounds) | target | |\n"
        "|---|---|---|---|---|---|---|---|")


def table_row(result):
    cells = [result.title, result.unit]
    if not result.rounds:
        return "| " + " | ".join(cells + ["", "", result.other, "", "", f"not measured: {result.problem}"]) + " |"
    targets = "; ".join(target.text(result.unit) for target in result.targets)
    verdicts = "; ".join(target.verdict(result.value(), result.ratio()) for target in result.targets)
    if result.problem:
        verdicts = f"{verdicts}; {len(result.rounds)} rounds only: {result.problem}".removeprefix("; ")
    return "| " + " | ".join(cells + [number(result.value()), number(result.other_value()), result.other,
                                      spread(result.ratios()), targets, verdicts]) + " |"


def table(results):
    return "\n".join([HEAD] + [table_row(result) for result in results])


def summary(results):
    """A line about the targets, for the screen and the page."""
    scores = [target.score(result.value(), result.ratio()) for result in results for target in result.targets]
    judged = sum(score is not None for score in scores)
    missed = [result for result in results if result.missed()]
    count = sum(len(result.missed()) for result in missed)
    text = f"{judged} targets: {judged - count} met, {count} missed"
    if missed:
        text += " (" + ", ".join(result.name for result in missed) + ")"
    absent = [result.name for result in results if not result.rounds]
    return text + (f"; not measured: {', '.join(absent)}" if absent else "") + "."


def page(groups, machine, command, plot):
    """The generated part of the page. groups: (title, results) in order; machine: lines of text."""
    everything = [result for _, results in groups for result in results]
    lines = [BEGIN, "", f"    {command}", "", *(line + "  " for line in machine), "",
             "Medians; a ratio is the median of the rounds' ratios, in brackets the lowest and the highest.",
             summary(everything), "", f"![how near each target is]({plot})", ""]
    for title, results in groups:
        lines += [f"### {title}", "", table(results), ""]
    lines += ["### The commands", "", "| | uroce | other |", "|---|---|---|"]
    for result in everything:
        commands = [f"`{text}`" if text else "" for text in (result.commands + ["", ""])[:2]]
        lines.append(f"| {result.title} | " + " | ".join(commands) + " |")
    return "\n".join(lines + ["", END])


def replace_part(text, part):
    """The page with its generated part replaced. ValueError if it has none, or several."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"there must be one line {BEGIN!r} and, after it, one line {END!r}")
    return text[:text.index(BEGIN)] + part + text[text.index(END) + len(END):]


def write_file(path, text):
    """Writes the file as a whole or not at all."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)
