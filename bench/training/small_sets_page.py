"""The section of docs/EVIDENCE.md with the searches on small data sets. In: the results of `small_sets.py`. Out: Markdown."""

from __future__ import annotations

import random
from collections.abc import Sequence

import small_sets
from evidence_results import Cost, filled

DRAW_SEED = 20261128  # of `small_sets.py --draw`, chosen after the last change of the search
WORDS = """## Searches on small data sets

Each set was searched with `--minutes {minutes:g}` on two processors, for an nRF52840, within these limits of RAM, Flash and
time: {limits}. The best baseline is the best of majority class, logistic regression and k nearest neighbours on the test
samples. The network by hand is the largest plain network that fits these limits (kernels of 3 and the smallest expansions; for
images a chain of depthwise separable convolutions). It was trained for as many CPU seconds as the search took. All networks are
int8. The search did not use the test samples. The 95 % intervals of differences are in points and paired over the test samples,
or over speakers or photographs that have several.

While the search was developed, {developed} of the sets were searched and their test accuracies seen, so these may be
optimistic. After its last change, five sets were drawn at random (`--draw {seed}`): {drawn}. {new} had not been searched
before.
"""


def section(lines: Sequence[small_sets.Line]) -> str:
    """Return the section, given the results of `small_sets.py`."""
    drawn = random.Random(DRAW_SEED).sample(small_sets.POOL, small_sets.DRAWN)
    new = [line["set"] for line in lines if line["set"] not in small_sets.SETS]
    limits = (f"{task} {ram} / {flash} / {ms:g} ms" for task, (ram, flash, ms) in small_sets.LIMITS.items())
    words = WORDS.format(
        minutes=lines[0]["minutes"],
        limits=", ".join(limits),
        developed=len(lines) - len(new),
        seed=DRAW_SEED,
        drawn=", ".join(drawn),
        new=listed(new),
    )
    names = " ".join(line["set"] for line in lines)
    seconds = sum(line["cpu_seconds"] + (line["by_hand_cpu_seconds"] or 0) for line in lines)
    cost = Cost(2 * len(lines), seconds, 0)
    head, *paragraphs = words.split("\n\n")
    rows = "\n".join(small_sets.report(lines))
    command = filled(f"Command: `bench/training/small_sets.py -o DIR {names}`. Cost: {cost}.")
    return "\n".join((f"{head}\n", *map(filled, paragraphs), rows, "", command))


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them, and "and" before the last."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
