#!/usr/bin/env python3
"""Reports benchmark results: python3 benches/report.py [--update | --bars]

Reads the results of one run of `cargo bench -p benches --bench guard` from the target directory, and
prints a Markdown table. Each time is a multiple of the guard's time in the same run. With --update,
writes the table to README.md and a chart to docs/chart.svg. With --bars, prints each performance
limit and whether it was met, and exits with status 1 if one was not.
"""

import json
import os
import platform
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MEASURED = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "criterion"
README, CHART = HERE.parent / "README.md", HERE.parent / "docs/chart.svg"
LONGEST_RUN = 30 * 60  # seconds
MARKS = "<!-- from benches/report.py -->", "<!-- end -->"

SUBJECTS = ["guard", "openat2", "openat2-plain", "std", "cap-std", "path_jail", "strict-path", "soft-canonicalize"]
DEPTHS = [2, 8, 16]
WORKS = {
    "open": "open, verify, close",
    "check": "tell where it is",
    "create": "tell where it would be",
    "refuse-absolute": "refuse an absolute path",
    "refuse-dots": "refuse a path with `..`",
    "refuse-link": "refuse a link out",
    "absolute-link": "follow an absolute link",
}


def load():
    """The median time in nanoseconds of each GROUP/SUBJECT/DEPTH."""
    times, when = {}, []
    for file in MEASURED.glob("*/*/*/new/estimates.json"):
        when.append(file.stat().st_mtime)
        group, subject, depth = file.relative_to(MEASURED).parts[:3]
        times[group, subject, int(depth)] = json.loads(file.read_text())["median"]["point_estimate"]
    if not times:
        sys.exit(f"no results in {MEASURED}: run cargo bench -p benches --bench guard")
    if max(when) - min(when) > LONGEST_RUN:
        sys.exit(f"{MEASURED} contains results of several runs: remove it and run the benchmarks again")
    return times


def row(cells):
    return f"| {' | '.join(cells)} |"


def table(times):
    yield row(["work", "names", *(f"`{subject}`" for subject in SUBJECTS)])
    yield row(["---"] * (2 + len(SUBJECTS)))
    for group, work in WORKS.items():
        for depth in DEPTHS:
            ratios = (times.get((group, subject, depth), 0) / times[group, "guard", depth] for subject in SUBJECTS)
            yield row([work, str(depth), *(f"{ratio:.2f}" if ratio else "" for ratio in ratios)])


def scaling(times):
    """The guard with more roots, clients or threads, compared with the guard with one."""
    yield row(["work", "as a multiple of", "ratio"])
    yield row(["---"] * 3)
    one = times["roots", "guard", 1]
    for count in [10, 100, 1000, 10000]:
        yield row([f"`check` with {count:,} roots", "with one root", f"{times['roots', 'guard', count] / one:.2f}"])
    yield row(["the same, in a root past those held open", "with one root", f"{times['roots', 'last', 10000] / one:.2f}"])
    warm = times["session", "warm", 8] / times["session", "bare", 8]
    yield row(["`check` with a client's kept roots", "without the session", f"{warm:.2f}"])
    yield row(["what two threads do, 10,000 clients", "what one does", f"{2 * speed(times, 'guard'):.2f}"])
    yield row(["the same, by bare `openat2`", "what one does", f"{2 * speed(times, 'openat2'):.2f}"])


def speed(times, subject):
    return times["load", subject, 1] / times["load", subject, 2]


def bars(times):
    """Each performance limit: a description, the measured ratio or time, and the maximum."""
    ratio = lambda group, depth, other: times[group, "guard", depth] / times[group, other, depth]
    for group, most in [("open", 1.25), ("check", 1.2)]:
        for depth in DEPTHS:
            yield f"{group}/{depth}: guard ÷ openat2", ratio(group, depth, "openat2"), most
    for depth in DEPTHS:
        yield f"check/{depth}: guard ÷ openat2-plain", ratio("check", depth, "openat2-plain"), 1.5
    yield "open/16: guard ÷ std", ratio("open", 16, "std"), 0.2
    for depth in DEPTHS:
        yield f"open/{depth}: guard ÷ path_jail, which verifies", ratio("open", depth, "path_jail"), 1
        yield f"open/{depth}: guard ÷ cap-std, which does not", ratio("open", depth, "cap-std"), 1.3
    yield "check/16: guard ÷ std", ratio("check", 16, "std"), 0.4
    yield "check/2: guard ÷ std", ratio("check", 2, "std"), 1.3
    for depth in DEPTHS[1:]:
        for peer in ["soft-canonicalize", "path_jail", "strict-path"]:
            yield f"check/{depth}: guard ÷ {peer}", ratio("check", depth, peer), 1
    yield "roots: 10,000 ÷ 1", times["roots", "guard", 10000] / times["roots", "guard", 1], 1.2
    yield "session: check with cached roots minus bare check, in ns", times["session", "warm", 8] - times["session", "bare", 8], 300
    yield "load: scaling of openat2 ÷ scaling of the guard", speed(times, "openat2") / speed(times, "guard"), 1 / 0.95


def chart(times):
    """A bar chart of the times for paths of 8 names, with a separate scale for each operation."""
    width, label, line, depth = 720, 150, 20, 8
    shapes, top = [], 0
    text = lambda x, y, words, more="": shapes.append(f'<text x="{x:.0f}" y="{y:.0f}"{more}>{words}</text>')
    for group in ["open", "check", "create"]:
        shown = [(subject, times[group, subject, depth]) for subject in SUBJECTS if (group, subject, depth) in times]
        most = max(time for _, time in shown)
        top += 30
        text(0, top, f"{WORKS[group]}, {depth} names deep", ' font-weight="bold"')
        for subject, time in shown:
            top += line
            long = (width - label - 60) * time / most
            text(label - 8, top, subject, ' text-anchor="end"')
            colour = "#2a6f4e" if subject == "guard" else "#9aa5b1"
            shapes.append(f'<rect x="{label}" y="{top - 12}" width="{long:.0f}" height="14" fill="{colour}"/>')
            text(label + long + 6, top, f"{time / dict(shown)['guard']:.2f}")
        top += 10
    style = 'font-family="sans-serif" font-size="13" fill="#24292f"'
    back = f'<rect width="{width}" height="{top + 10}" fill="#ffffff"/>'
    title = "<title>Time by each way, as a multiple of the guard's: shorter is faster</title>"
    body = "\n".join([title, back, *shapes])
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + 10}" {style}>\n{body}\n</svg>\n'


def main():
    times = load()
    machine = f"One run on {os.cpu_count()} processors, {platform.system()} {platform.release().split('-')[0]}, {platform.machine()}."
    shown = "\n".join([machine, "", *table(times), "", *scaling(times)])
    if "--update" in sys.argv:
        CHART.write_text(chart(times))
        start, end = (re.escape(mark) for mark in MARKS)
        text, count = re.subn(f"{start}.*?{end}", lambda _: f"{MARKS[0]}\n\n{shown}\n\n{MARKS[1]}", README.read_text(), flags=re.S)
        if count != 1:
            sys.exit(f"README.md does not have exactly one section between {MARKS[0]} and {MARKS[1]}")
        README.write_text(text)
    elif "--bars" in sys.argv:
        kept = [(what, ratio, most, ratio <= most) for what, ratio, most in bars(times)]
        for what, ratio, most, is_kept in kept:
            print(f"{'kept  ' if is_kept else 'BROKEN'}  {ratio:8.2f}  at most {most:6.2f}  {what}")
        sys.exit(0 if all(is_kept for *_, is_kept in kept) else 1)
    else:
        print(shown)


main()
