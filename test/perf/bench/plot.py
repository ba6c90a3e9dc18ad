# SPDX-License-Identifier: BSD-3-Clause
"""An SVG picture of the targets: a bar for each comparison with a target, on a logarithmic scale."""
import math
from xml.sax.saxutils import escape

LOW, HIGH = 1 / 8, 8  # multiples of the target at the edges
LABELS, WIDTH, ROW, TOP = 330, 420, 22, 40
TICKS = ((1 / 8, "1/8"), (1 / 4, "1/4"), (1 / 2, "1/2"), (1, "target"), (2, "2"), (4, "4"), (8, "8"))
MET, MISSED = "#2e7d32", "#c62828"


def x_of(score):
    """Pixels from the left; scores beyond the edges are drawn at the edges."""
    score = min(max(score, LOW), HIGH)
    return LABELS + WIDTH * math.log(score / LOW) / math.log(HIGH / LOW)


def bar(result, y):
    score = result.score()
    one, end = x_of(1), x_of(score)
    left, length = min(one, end), max(abs(end - one), 1)
    color = MET if score >= 1 else MISSED
    text = f"{score:.2f}" if score < 10 else f"{score:.0f}"
    anchor, at, ink = ("start", end + 4, color) if score >= 1 else ("end", end - 4, color)
    if end < LABELS + 40:  # no room before the bar
        anchor, at, ink = "start", end + 4, "white"
    title = escape(result.title.replace("`", ""))
    return (f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{title}</text>\n'
            f'<rect x="{left:.1f}" y="{y + 4}" width="{length:.1f}" height="{ROW - 8}" fill="{color}"/>\n'
            f'<text x="{at:.1f}" y="{y + 15}" text-anchor="{anchor}" fill="{ink}">{text}</text>')


def svg(results):
    judged = [result for result in results if result.score() is not None]
    height = TOP + ROW * len(judged) + 12
    width = LABELS + WIDTH + 60
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for score, label in TICKS:
        x = x_of(score)
        stroke = "#000" if score == 1 else "#ddd"
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 8}" stroke="{stroke}"/>\n'
                     f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle" fill="#555">{label}</text>')
    parts += [bar(result, TOP + ROW * i) for i, result in enumerate(judged)]
    return "\n".join(parts + ["</svg>", ""])
