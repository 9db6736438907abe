"""The section of docs/EVIDENCE.md with the searches on small data sets. In: the results of `small_sets.py`. Out: Markdown."""

from __future__ import annotations

import random
from collections.abc import Sequence

import small_sets
from evidence_results import Cost
from page_text import filled, listed

DRAW_SEED = 20261128  # of `small_sets.py --draw`, chosen after the last change of the search
WORDS = """## Searches on small data sets

Each set was searched by successive halving with `--minutes {minutes:g}` on two processors, for an nRF52840, within these
limits of RAM (KiB), Flash (KiB) and time: {limits}. The size of the input was given, so stage one was not run. The networks
are int8. The search did not use the test samples. The best baseline is the one of majority class, logistic regression and k
nearest neighbours (k-NN) with the highest test accuracy.

The hand-made network is the largest *plain* network whose estimated RAM, Flash and time are within the limits: kernels of
3, the smallest expansions, and for images a chain of depthwise separable convolutions. It was trained with one fixed
augmentation on the training and validation parts, for {least:.0f} to {most:.0f} % of the CPU time of the search. The search
has this network among its candidates, and logistic regression and k-NN as small networks. The column "network found" says
which candidate it returned: the hand-made network, such a network without pooling, a linear network (logistic regression),
nearest neighbours, or a sampled network.

Brackets contain 95 % intervals of the accuracy. Each difference is given as its 95 % interval, paired over the test
samples; above 0 the search is better. The file does not say which samples were classified correctly, so a p-value is that
of a normal distribution with this 95 % interval. Every set was searched and trained with one seed, so these intervals do
not contain the chance of search and training. If several samples are from one speaker or photograph, speakers or photographs
are resampled. The test part of spoken-digits has a single speaker, so its intervals say nothing about other speakers. Training
samples include the samples for validation.

cifar-a, -b and -c are each four classes of a fifth of CIFAR-10, at 28 pixels. digits are from scikit-learn (8 pixels),
shapes are drawn circles, squares and triangles, faces are with or without a mask (both 32 pixels). spoken-digits and
spoken-digits-known are the same recordings; the test speaker of spoken-digits is not in training, the test speakers of
spoken-digits-known are. All other sets are sensor series of the package aeon. Four of its sets were left out: ACSF1 is too
long for 10 ms, PickupGestureWiimoteZ has too few samples, Covid3Month has no classes, and JapaneseVowels_eq equals
JapaneseVowels. Speech Commands was left out because the copy here has ten recordings of each word.

**All rows are of an earlier version of the search**, of 28 November 2026: it trained by SGD, and its only plain networks had
kernels of 3. Today's tries several families of networks and AdamW (see [How the search works](TINYNAS.md)), so the commands
give other networks and other accuracies. The earlier version was developed on {developed} of the sets, and their test
accuracies were seen, so the accuracies of these sets may be optimistic. After its last change five sets were drawn at random
(`--draw
{seed}`) and searched first: {drawn}. Before, {new} had never been searched (but cifar-c has images of dogs and frogs in
common with cifar-a and cifar-b).
"""


def section(lines: Sequence[small_sets.Line], limit: float) -> str:
    """Return the section, given the results of `small_sets.py` and the largest p-value of a verdict."""
    drawn = random.Random(DRAW_SEED).sample(small_sets.POOL, small_sets.DRAWN)
    new = [line["set"] for line in lines if line["set"] not in small_sets.SETS]
    limits = (f"{task} {ram} / {flash} / {ms:g} ms" for task, (ram, flash, ms) in small_sets.LIMITS.items())
    shares = [100 * line["by_hand_cpu_seconds"] / line["cpu_seconds"] for line in lines if line["by_hand_cpu_seconds"]]
    words = WORDS.format(
        least=min(shares, default=100),
        most=max(shares, default=100),
        minutes=lines[0]["minutes"],
        limits=", ".join(limits),
        developed=len(lines) - len(new),
        seed=DRAW_SEED,
        drawn=", ".join(drawn),
        new=listed(new),
    )
    names = " ".join(line["set"] for line in lines)
    seconds = sum(line["cpu_seconds"] + (line["by_hand_cpu_seconds"] or 0) for line in lines)
    cost = Cost(2 * len(lines), seconds)
    rows = "\n".join(small_sets.report(lines, limit))
    of = f"{len(lines)} searches, {len(lines)} trainings of hand-made networks"
    command = filled(f"Command: `bench/tinynas/small_sets.py -o DIR {names}`. Cost ({of}): {cost}.")
    return "\n".join((filled(words), rows, "", command))
