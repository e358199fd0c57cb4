#!/usr/bin/env python3
"""Reports the results of `cargo bench -p benches --bench guard`:

    python3 benches/report.py [--update | --bars]

Reads criterion's estimates of one run from the target directory, and prints a Markdown table in
which each time is a multiple of the guard's time in that run. --update writes this table to
docs/speed.md and the chart to docs/chart.svg. --bars prints each bound on the guard's speed and
whether it was met, and exits with status 1 if any was not.
"""

import json
import os
import platform
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MEASURED = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "criterion"
PAGE, CHART = HERE.parent / "docs/speed.md", HERE.parent / "docs/chart.svg"
LONGEST_RUN = 30 * 60  # seconds
MARKS = "<!-- from benches/report.py -->", "<!-- end -->"

SUBJECTS = [
    "guard", "openat2", "openat2-plain", "std",
    "cap-std", "path_jail", "strict-path", "soft-canonicalize",
]
DEPTHS = [2, 8, 16]
WORKS = {
    "open": "open, verify, close",
    "open-link": "the same through a relative symlink",
    "create-file": "create a file and remove it",
    "check": "resolve an existing path",
    "create": "resolve a path to create",
    "refuse-absolute": "refuse an absolute path outside",
    "refuse-dots": "refuse a path that leaves by `..`",
    "refuse-link": "refuse a symlink to the outside",
    "absolute-link": "follow an absolute symlink inside",
}


def load():
    """Returns the median time in nanoseconds of each GROUP/SUBJECT/DEPTH. Exits if there are no
    results, or results of several runs."""
    times, when = {}, []
    for file in MEASURED.glob("*/*/*/new/estimates.json"):
        when.append(file.stat().st_mtime)
        group, subject, depth = file.relative_to(MEASURED).parts[:3]
        times[group, subject, int(depth)] = json.loads(file.read_text())["median"]["point_estimate"]
    if not times:
        sys.exit(f"no results under {MEASURED}; run: cargo bench -p benches --bench guard")
    if max(when) - min(when) > LONGEST_RUN:
        sys.exit(f"{MEASURED} contains results of several runs: remove it and measure again")
    return times


def row(cells):
    return f"| {' | '.join(cells)} |"


def table(times):
    yield row(["work", "depth", *(f"`{subject}`" for subject in SUBJECTS)])
    yield row(["---"] * (2 + len(SUBJECTS)))
    for group, work in WORKS.items():
        for depth in [DEPTHS[0], DEPTHS[-1]]:
            guard = times[group, "guard", depth]
            ratios = (times.get((group, subject, depth), 0) / guard for subject in SUBJECTS)
            yield row([work, str(depth), *(f"{ratio:.2f}" if ratio else "" for ratio in ratios)])


def scaling(times):
    """Yields a table of ratios between the guard's times with more roots, clients or threads and
    with one root, no client or one thread."""
    yield row(["work", "compared with", "ratio"])
    yield row(["---"] * 3)
    one = times["roots", "guard", 1]
    for count in [100, 10000]:
        ratio = times["roots", "guard", count] / one
        yield row([f"`check` with {count:,} roots", "with one root", f"{ratio:.2f}"])
    warm = times["session", "warm", 8] / times["session", "bare", 8]
    yield row(["`check` with a client's cached roots", "without a session", f"{warm:.2f}"])
    for subject, work in [("guard", "10,000 clients"), ("openat2", "bare `openat2`")]:
        ratio = 2 * speed(times, subject)
        yield row([f"throughput of two threads, {work}", "of one thread", f"{ratio:.2f}"])


def speed(times, subject):
    return times["load", subject, 1] / times["load", subject, 2]


def bars(times):
    """Yields the description, the measured ratio or time, and the upper bound of each bound."""
    ratio = lambda group, depth, other: times[group, "guard", depth] / times[group, other, depth]
    for group, most in [("open", 1.25), ("open-link", 1.3), ("check", 1.2)]:
        for depth in DEPTHS:
            yield f"{group}/{depth}: guard ÷ openat2", ratio(group, depth, "openat2"), most
    for depth in DEPTHS:
        yield f"check/{depth}: guard ÷ openat2-plain", ratio("check", depth, "openat2-plain"), 1.5
    yield "open/16: guard ÷ std", ratio("open", 16, "std"), 0.2
    for depth in DEPTHS:
        verified, unverified = ratio("open", depth, "path_jail"), ratio("open", depth, "cap-std")
        yield f"open/{depth}: guard ÷ path_jail, which verifies the file", verified, 1
        yield f"open/{depth}: guard ÷ cap-std, which does not", unverified, 1.3
    yield "check/16: guard ÷ std", ratio("check", 16, "std"), 0.4
    yield "check/2: guard ÷ std", ratio("check", 2, "std"), 1.3
    for depth in DEPTHS[1:]:
        for peer in ["soft-canonicalize", "path_jail", "strict-path"]:
            yield f"check/{depth}: guard ÷ {peer}", ratio("check", depth, peer), 1
    for depth in DEPTHS:
        yield f"refuse-dots/{depth}: guard ÷ openat2", ratio("refuse-dots", depth, "openat2"), 2
        yield f"refuse-link/{depth}: guard ÷ openat2", ratio("refuse-link", depth, "openat2"), 4
        yield f"absolute-link/{depth}: guard ÷ std", ratio("absolute-link", depth, "std"), 1
        yield f"create/{depth}: guard ÷ std", ratio("create", depth, "std"), 1
    yield "roots: 10,000 ÷ 1", times["roots", "guard", 10000] / times["roots", "guard", 1], 1.2
    yield "session: added to a check, in ns", times["session", "added", 8], 100
    scaling = speed(times, "openat2") / speed(times, "guard")
    yield "load: scaling of openat2 ÷ scaling of the guard", scaling, 1 / 0.95


def chart(times):
    """Returns an SVG chart of the times at depth 8. Each kind of work has its own scale."""
    width, label, line, depth = 720, 150, 20, 8
    shapes, top = [], 0
    text = lambda x, y, words, more="": shapes.append(
        f'<text x="{x:.0f}" y="{y:.0f}"{more}>{words}</text>'
    )
    for group in ["open", "check", "create"]:
        keys = [(group, subject, depth) for subject in SUBJECTS]
        shown = [(key[1], times[key]) for key in keys if key in times]
        most = max(time for _, time in shown)
        top += 30
        text(0, top, f"{WORKS[group]}, depth {depth}", ' font-weight="bold"')
        for subject, time in shown:
            top += line
            long = (width - label - 60) * time / most
            text(label - 8, top, subject, ' text-anchor="end"')
            colour = "#2a6f4e" if subject == "guard" else "#9aa5b1"
            place = f'x="{label}" y="{top - 12}" width="{long:.0f}" height="14"'
            shapes.append(f'<rect {place} fill="{colour}"/>')
            text(label + long + 6, top, f"{time / dict(shown)['guard']:.2f}")
        top += 10
    style = 'font-family="sans-serif" font-size="13" fill="#24292f"'
    back = f'<rect width="{width}" height="{top + 10}" fill="#ffffff"/>'
    title = "<title>Time as a multiple of the guard's. Shorter is faster.</title>"
    body = "\n".join([title, back, *shapes])
    space = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + 10}"'
    return f"<svg {space} {style}>\n{body}\n</svg>\n"


def main():
    times = load()
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    machine = f"One run on {os.cpu_count()} processors, {system}, {platform.machine()}."
    shown = "\n".join([machine, "", *table(times), "", *scaling(times)])
    if "--update" in sys.argv:
        CHART.write_text(chart(times))
        start, end = (re.escape(mark) for mark in MARKS)
        block = f"{MARKS[0]}\n\n{shown}\n\n{MARKS[1]}"
        text, count = re.subn(f"{start}.*?{end}", lambda _: block, PAGE.read_text(), flags=re.S)
        if count != 1:
            sys.exit(f"{PAGE} must contain {MARKS[0]} and {MARKS[1]} exactly once")
        PAGE.write_text(text)
    elif "--bars" in sys.argv:
        met = [(what, ratio, most, ratio <= most) for what, ratio, most in bars(times)]
        for what, ratio, most, is_met in met:
            print(f"{'met   ' if is_met else 'BROKEN'}  {ratio:8.2f}  at most {most:6.2f}  {what}")
        sys.exit(0 if all(is_met for *_, is_met in met) else 1)
    else:
        print(shown)


main()
