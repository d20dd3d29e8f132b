"""The order of words in the command line of a training, and what is meant by another, or by a run of no such name."""

import shlex
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import takewhile

from climlab_dl.cli.app import wrong_use


def refuse_another(words: Sequence[str], runs: Collection[str]) -> None:
    """End the program where no run is named after ``--folder``, and say which was meant, or the line as it should be.

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
    if run == "RUN":
        _refuse_unknown(_places(rest)[1:], runs, there=bool(folder))
    source, folder, own = (*first, "SOURCE")[0], folder or first[1:2] or ["FOLDER"], rest[len(first) :]
    line = shlex.join(["climlab-dl", "train", source, "--folder", *folder, run.replace("_", "-"), *own])
    wrong_use(
        f"the archive comes first, then --folder, then the run with its own options: {line}"
        + (f" (RUN is one of {', '.join(runs)})" if run == "RUN" else "")
    )


def _places(words: Sequence[str]) -> list[str]:
    """Words before the first option, but for ``--names``, whose pairs may stand before the run."""
    others = (word for word in words if word != "--names" and (word.startswith("-") or "=" not in word))
    return list(takewhile(lambda word: not word.startswith("-"), others))


def _refuse_unknown(words: Sequence[str], runs: Collection[str], *, there: bool) -> None:
    """End the program if a word after the archive was meant for a run: it is like one, or the folder is ``there``."""
    like = {word: get_close_matches(word.replace("_", "-"), runs, n=1) for word in words}
    meant = next((word for word in like if like[word]), words[0] if words and there else None)
    if meant is not None:
        maybe = f"did you mean {like[meant][0]}? There" if like[meant] else "there"
        wrong_use(f"{meant!r} is no run; {maybe} are {', '.join(runs)}")
