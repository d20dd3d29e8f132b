"""The program that the verbs belong to, how they take files and numbers, and how they refuse wrong use."""

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

from tyro.conf import Positional, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo
from tyro.extras import SubcommandApp


class Program(SubcommandApp):
    """The verbs, and what each does in one line."""

    def __init__(self) -> None:
        super().__init__()
        self.verbs: dict[str, str] = {}

    def command(self, func: Any = None, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a verb, which is described by the first line of its docstring."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            verb, text = name or function.__name__, inspect.getdoc(function) or ""
            self.verbs[verb] = text.splitlines()[0]
            # Help is broken where the terminal ends, and not where the source's lines do.
            function.__doc__ = re.sub(r"\n {8,}(?=\S)", " ", text)
            super(Program, self).command(name=verb, **options)(function)
            return function

        return register if func is None else register(func)


app = Program()
Files = Annotated[Positional[tuple[str, ...]], arg(metavar="FILES")]
AsJson = Annotated[bool, arg(name="json")]
Names = Annotated[
    tuple[str, ...],
    arg(
        metavar="[THEIRS=OURS ...]",
        help="What variables are called here, THEIRS=OURS, e.g. tcw=TMQ or ypos=lat; THEIRS= leaves one out.",
    ),
]
"""What variables of climate files are called; `renamed` reads it."""


def _read(kind: Callable[[str], Any], good: Callable[[Any], bool], wanted: str) -> Callable[[list[str]], Any]:
    def read(words: list[str]) -> Any:
        try:
            value = kind(words[0])
        except ValueError:
            value = None
        if value is None or not good(value):
            raise ValueError(f"{words[0]} is not {wanted}")
        return value

    return read


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="COUNT",
        instance_from_str=_read(int, lambda value: value > 0, "a whole number above 0"),
        is_instance=lambda value: isinstance(value, int) and value > 0,
        str_from_instance=lambda value: [str(value)],
    ),
]
"""A whole number above 0."""

registry = ConstructorRegistry()
"""How the words of the command line become values, where tyro's own way would not do."""


@registry.primitive_rule
def _numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[float | None] | None:
    """Take numbers, or None where that is a choice, and say in plain words what was expected.

    No ``nan``, which is neither below nor above any bound, and so would pass all that is asked of a number.
    """
    optional = info.type in (int | None, float | None)
    if info.type not in (int, float) and not optional:
        return None
    whole = info.type in (int, int | None)
    read = _read(
        int if whole else float,
        lambda value: not math.isnan(value),
        ("a whole number" if whole else "a number") + (" or None" if optional else ""),
    )
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=("{None}|" if optional else "") + ("INT" if whole else "FLOAT"),
        instance_from_str=lambda words: None if optional and words == ["None"] else read(words),
        is_instance=lambda value: isinstance(value, int if whole else int | float) or (optional and value is None),
        str_from_instance=lambda value: [str(value)],
    )


@registry.primitive_rule
def _names(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Mapping[str, str | None]] | None:
    """Take the names that a run's data have as `Names` of the verbs."""
    if info.type != Mapping[str, str | None]:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="[THEIRS=OURS ...]",
        instance_from_str=lambda words: renamed(tuple(words)),
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [f"{theirs}={ours or ''}" for theirs, ours in value.items()],
    )


def wrong_use(message: object) -> NoReturn:
    """End the program because it was called wrongly: exit code 2."""
    print(f"climlab-dl: {message}", file=sys.stderr)
    sys.exit(2)


@contextmanager
def taking_options() -> Iterator[None]:
    """Take a ValueError for wrong use: in here nothing is looked at but what was given as options."""
    try:
        yield
    except ValueError as error:
        wrong_use(error)


def source_of(files: tuple[str, ...]) -> str | tuple[str, ...]:
    """Give what was named on the command line as ``archive.open`` takes it."""
    if not files:
        wrong_use("name FILES: one or more files, folders or patterns")
    return files[0] if len(files) == 1 else files


def renamed(pairs: tuple[str, ...]) -> dict[str, str | None]:
    """Read THEIRS=OURS as ``archive.open`` takes it."""
    if wrong := [pair for pair in pairs if "=" not in pair]:
        wrong_use(f"--names {wrong[0]}: expected THEIRS=OURS, e.g. tcw=TMQ")
    return {theirs: ours or None for theirs, ours in (pair.split("=", 1) for pair in pairs)}


def prior_of(given: tuple[str, ...]) -> dict[str, tuple[float, float]] | None:
    """Read NAME=LOW:HIGH as ``posterior.fit`` takes a prior; None where nothing is given."""
    prior = {}
    for word in given:
        name, _, ends = word.partition("=")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            wrong_use(f"--prior {word}: expected NAME=LOW:HIGH, e.g. Omega_m=0.1:0.5")
        if not -math.inf < low < high < math.inf:
            wrong_use(f"--prior {word}: the ends are two numbers, of which the low one comes first")
        prior[name] = (low, high)
    return prior or None


def masks_apart(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part the names into those of files of masks and those of files of fields, where these lie apart."""
    of_masks = tuple(pair for pair in names if pair.endswith("=mask"))
    return of_masks, tuple(pair for pair in names if pair not in of_masks)


def refuse_names(names: tuple[str, ...]) -> None:
    """End the program where variables of volumes would be renamed."""
    if names:
        wrong_use(
            "--names is for climate; names, prior and box of volumes are given in Python, with volumes.save "
            "(Bring your universes, in the documentation)"
        )


def refuse_to_overwrite(out: Path, files: tuple[str, ...]) -> None:
    """End the program if what is written, which holds less than the inputs, would take the place of one of them."""
    from climlab_dl import archive

    if out.exists() and any(out.samefile(path) for path in archive.paths(files)):
        wrong_use(f"{out} is one of the inputs, whose fields would be lost; choose another name to write to")
