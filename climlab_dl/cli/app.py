"""The program that the verbs belong to, and how they take files."""

import sys

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
