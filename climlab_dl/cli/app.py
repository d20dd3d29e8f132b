"""The program that the verbs belong to, and how they take files."""

import sys
from pathlib import Path

from tyro.conf import Positional
from tyro.extras import SubcommandApp

app = SubcommandApp()
Files = Positional[tuple[str, ...]]


def source_of(files: tuple[str, ...]) -> str | tuple[str, ...]:
    """Give what was named on the command line as ``archive.open`` takes it."""
    if not files:
        print("climlab-dl: name FILES: one or more files, folders or patterns", file=sys.stderr)
        sys.exit(2)
    return files[0] if len(files) == 1 else files


def refuse_to_overwrite(out: Path, files: tuple[str, ...]) -> None:
    """End the program if what is written, which holds less than the inputs, would take the place of one of them."""
    from climlab_dl import archive

    if out.exists() and any(out.samefile(path) for path in archive.paths(files)):
        sys.exit(f"climlab-dl: {out} is one of the inputs, whose fields would be lost; choose another name to write to")
