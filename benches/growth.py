#!/usr/bin/env python3
"""Makes the pictures and figures of docs/growth.md from the output of the bench:

    cargo bench -p benches --bench growth | python3 benches/growth.py

The page contains `<!-- QUESTION -->` and `<!-- end of QUESTION -->` for each question. Between them
come a picture, docs/growth-QUESTION.svg, and the limits that the run met. In a picture, both axes
are logarithmic.
"""

import math
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/growth.md"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 320, 70, 20, 40, 50
COLOURS = ["#2a6f4e", "#b4541a", "#3b5b92", "#8a8f98"]
QUESTIONS = {
    "roots": ("roots in force", "time of a check"),
    "patterns": ("patterns", "time of a check"),
    "depth": ("names in the path, below its root", "time of an operation"),
    "entries": ("entries of a directory", "time of an entry"),
    "clients": ("clients, called in turn", "time of an open"),
    "lists": ("entries of a list", "time of an entry"),
}


def load(lines):
    """Returns the points of each series of each question, and the limits of each question."""
    found, limits, pending = {}, {}, []
    for line in lines:
        if line.startswith("# "):
            pending.append(line[2:].strip())
        elif line.count("\t") == 3:
            question, series, number, nanoseconds = line.split("\t")
            points = found.setdefault(question, {}).setdefault(series, [])
            points.append((int(number), float(nanoseconds)))
            limits.setdefault(question, []).extend(pending)
            pending = []
    return found, limits


def time(nanoseconds):
    for unit, size in [("s", 1e9), ("ms", 1e6), ("µs", 1e3)]:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def picture(question, series):
    """Returns an SVG chart of the series, with the least and the greatest time of each."""
    across, up = QUESTIONS[question]
    numbers = sorted({number for points in series.values() for number, _ in points})
    times = [time for points in series.values() for _, time in points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    span = math.log10(numbers[-1] / numbers[0]) or 1
    x = lambda number: LEFT + (WIDTH - LEFT - RIGHT) * math.log10(number / numbers[0]) / span
    y = lambda time: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(time) - low) / (high - low)
    shapes = [f"<title>{up} by the number of {across}</title>",
              f'<rect width="{WIDTH}" height="{HEIGHT + 20 * len(series)}" fill="#ffffff"/>']
    text = lambda x, y, words, more="": shapes.append(f'<text x="{x:.0f}" y="{y:.0f}"{more}>{words}</text>')
    line = lambda a, b, c, d: shapes.append(
        f'<line x1="{a:.0f}" y1="{b:.0f}" x2="{c:.0f}" y2="{d:.0f}" stroke="#d8dce2"/>')
    for power in range(low, high + 1):
        line(LEFT, y(10**power), WIDTH - RIGHT, y(10**power))
        text(LEFT - 8, y(10**power) + 4, time(10**power), ' text-anchor="end"')
    for number in numbers:
        line(x(number), TOP, x(number), HEIGHT - BOTTOM)
        text(x(number), HEIGHT - BOTTOM + 18, f"{number:,}", ' text-anchor="middle"')
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, across, ' text-anchor="middle"')
    for index, (name, points) in enumerate(series.items()):
        colour = COLOURS[index]
        path = " ".join(f"{x(number):.0f},{y(time):.0f}" for number, time in points)
        shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        shapes.extend(f'<circle cx="{x(number):.0f}" cy="{y(time):.0f}" r="3" fill="{colour}"/>'
                      for number, time in points)
        below = HEIGHT + 20 * index + 10
        shapes.append(f'<rect x="{LEFT}" y="{below - 10}" width="12" height="12" fill="{colour}"/>')
        first, last = points[0], points[-1]
        words = f"{time(first[1])} with {first[0]:,}, {time(last[1])} with {last[0]:,}"
        text(LEFT + 20, below, f"{name.replace('`', '')}: {words}")
    space = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 20 * len(series)}"'
    style = 'font-family="sans-serif" font-size="13" fill="#24292f"'
    return f"<svg {space} {style}>\n" + "\n".join(shapes) + "\n</svg>\n"


def main():
    found, limits = load(sys.stdin)
    page = PAGE.read_text()
    for question, series in found.items():
        (PAGE.parent / f"growth-{question}.svg").write_text(picture(question, series))
        lines = [f"![{QUESTIONS[question][1]} by the number of {QUESTIONS[question][0]}]"
                 f"(growth-{question}.svg)", ""]
        for name, points in series.items():
            lines.append(f"- {name}: " + ", ".join(f"{time(t)} with {n:,}" for n, t in points) + ".")
        separated = lambda limit: re.sub(r"\d{5,}", lambda found: f"{int(found[0]):,}", limit)
        lines += [f"- Limit: {separated(limit)}." for limit in limits[question]]
        start, end = f"<!-- {question} -->", f"<!-- end of {question} -->"
        block = "\n".join([start, "", *lines, "", end])
        page, count = re.subn(f"{start}.*?{end}", lambda _: block, page, flags=re.S)
        if count != 1:
            sys.exit(f"{PAGE} must contain {start} and {end} exactly once")
    PAGE.write_text(page)


main()
