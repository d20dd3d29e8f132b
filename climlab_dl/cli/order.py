"""The order of words in the command line of a training, and what is meant by another."""

import shlex
from collections.abc import Collection, Sequence
from itertools import takewhile

from climlab_dl.cli.app import wrong_use


def refuse_another(words: Sequence[str], runs: Collection[str]) -> None:
    """End the program where no run is named after ``--folder``, and say the line as it should be.

    Parameters
    ----------
    words
        What follows ``climlab-dl train``.
    runs
        Names of the runs.
    """
    rest = [part for word in words for part in (word.split("=", 1) if word.startswith("--folder=") else [word])]
    named = [word for word in rest if word.replace("_", "-") in runs]
    folder: list[str] = []
    if "--folder" in rest:
        at = rest.index("--folder")
        folder = rest[at + 1 : at + 2]
        if set(named) & set(rest[at + 2 :]):
            return
        del rest[at : at + 2]
    if {"-h", "--help"} & set(words):
        return
    run = next((word for word in named if word in rest), "RUN")
    if run in rest:
        rest.remove(run)
    first = list(takewhile(lambda word: not word.startswith("-"), rest))
    source, folder, own = (*first, "SOURCE")[0], folder or first[1:2] or ["FOLDER"], rest[len(first) :]
    line = shlex.join(["climlab-dl", "train", source, "--folder", *folder, run.replace("_", "-"), *own])
    wrong_use(
        f"the archive comes first, then --folder, then the run with its own options: {line}"
        + (f" (RUN is one of {', '.join(runs)})" if run == "RUN" else "")
    )
