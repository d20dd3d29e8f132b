"""Notebooks without a browser: find one that came with the package, run it, keep it as a page that needs no network."""

import ast
import os
import re
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from climlab_dl import execution
from climlab_dl.files import write_text

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Seconds after which a cell that still runs says so.
HEARTBEAT = 10.0
# Seconds that one cell may take.
CELL_TIMEOUT = 1800


def find(name: str) -> Path:
    """Path of a notebook of the package, such as "00_tour".

    Raises
    ------
    FileNotFoundError
        No such notebook; the message lists those that there are.
    """
    package = Path(__file__).resolve().parent
    # In a wheel the notebooks lie inside the package, in a checkout beside it.
    folders = [package / "notebooks", package.parent / "notebooks"]
    there = {path.stem: path for folder in reversed(folders) for path in sorted(folder.glob("*.ipynb"))}
    stem = name.removesuffix(".ipynb")
    if stem not in there:
        raise FileNotFoundError(f"no notebook {name!r}; the package has {', '.join(sorted(there)) or 'none'}")
    return there[stem]


def execute(path: Path, out_folder: Path, parameters: Mapping[str, Any] | None = None) -> "NotebookNode":
    """Run a notebook, printing a line a cell, and keep it in a folder.

    The kernel works in `out_folder`, so that what the notebook writes by relative path lies there, beside the executed
    notebook itself; that is kept when a cell fails too.

    Parameters
    ----------
    path
        The notebook.
    out_folder
        Where it works and is kept; made if need be.
    parameters
        Values that replace those assigned in the cell tagged "parameters".

    Raises
    ------
    ValueError
        The notebook has no such parameter.
    RuntimeError
        A cell failed; the message has the cell and its error.
    KeyboardInterrupt
        SIGINT or SIGTERM came. Trainings have written a checkpoint, nothing runs any more, and the message says what
        was kept.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from traitlets.config import Config

    out_folder = Path(out_folder).resolve()
    out_folder.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.read(path, as_version=4)
    _set_parameters(notebook, parameters or {}, path)
    diary = _Diary(notebook)
    with tempfile.TemporaryDirectory(prefix="climlab-dl-ipython-") as ipython:
        # Sockets in a folder of ours: nobody else on the machine can speak to the kernel.
        transport = "tcp" if os.name == "nt" else "ipc"
        kernel = {"transport": transport, "connection_file": str(Path(ipython) / "kernel.json")}
        client = NotebookClient(
            notebook,
            config=Config(AsyncKernelManager=kernel),
            kernel_name="python3",
            timeout=CELL_TIMEOUT,
            resources={"metadata": {"path": str(out_folder)}},
            on_cell_start=diary.start,
            on_cell_executed=diary.complete,
        )
        try:
            # Connection files of clusters, history and profiles of this run stay out of the user's own.
            execution.execute(client, os.environ | {"IPYTHONDIR": ipython}, out_folder, diary.say)
        except KeyboardInterrupt as interrupt:
            signal, kept = interrupt.args
            raise KeyboardInterrupt(
                f"{path.name} was stopped by {signal} at {diary.here}; {out_folder} keeps the notebook so far and "
                f"{kept}, and the same command goes on from there"
            ) from None
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as failure:
            raise RuntimeError(f"{path.name} failed at {diary.here}:\n{failure}") from failure
        finally:
            diary.close()
            write_text(out_folder / path.name, nbformat.writes(notebook))
    return notebook


def export(notebook: "NotebookNode", path: Path) -> Path:
    """Write an executed notebook as one page that needs no network.

    Images are in the page, and so is the library that draws the interactive maps, once; nothing is asked of a content
    network. What only a live kernel could draw (Jupyter widgets) shows its text.

    Returns
    -------
    Path
        The page.
    """
    import copy

    from jinja2 import DictLoader
    from nbconvert import HTMLExporter

    notebook = copy.deepcopy(notebook)
    notebook.metadata.pop("widgets", None)
    sent: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _keep(output, sent)]
    exporter = HTMLExporter(
        template_file="self_contained.html.j2",
        extra_loaders=[DictLoader({"self_contained.html.j2": _TEMPLATE})],
        embed_images=True,
    )
    page, _ = exporter.from_notebook_node(notebook)
    return write_text(Path(path), page)


# The lab template without the scripts that it asks of content networks, and with headings that wrap, so that tables of
# many columns are not cut at the page's edge.
_TEMPLATE = """{%- extends 'lab/index.html.j2' -%}
{%- block html_head_css -%}{{ super() }}<style>
.jp-RenderedHTMLCommon table.dataframe { font-size: 11px; }
.jp-RenderedHTMLCommon table.dataframe thead th { overflow-wrap: anywhere; min-width: 3em; }
.jp-RenderedHTMLCommon table.dataframe :is(td, th) { padding: 0.3em; }
</style>{%- endblock html_head_css -%}
{%- block html_head_js -%}{%- endblock html_head_js -%}
{%- block jupyter_widgets -%}{%- endblock jupyter_widgets -%}
{%- block html_head_js_mathjax -%}{%- endblock html_head_js_mathjax -%}
{%- block html_head_js_mermaidjs -%}{%- endblock html_head_js_mermaidjs -%}
"""

# Kinds of output that need a kernel or a server to be drawn, or hold the same as another kind of the same output.
_UNDRAWN = (
    "application/vnd.jupyter.widget-view+json",
    "application/vnd.holoviews_load.v0+json",
    "application/vnd.holoviews_exec.v0+json",
)


def _keep(output: Any, sent: set[str]) -> bool:
    """Whether an output has anything to draw that the page does not have yet; drops kinds that cannot be drawn."""
    if "data" not in output:
        return True
    for kind in _UNDRAWN:
        output.data.pop(kind, None)
    script = output.data.get("application/javascript")
    if script is not None:
        if script in sent:
            return False
        sent.add(script)
    return bool(output.data)


def parameters(path: Path) -> dict[str, Any]:
    """Values that a notebook, such as one that `execute` has kept, assigns in the cell tagged "parameters"."""
    import nbformat

    cells = _cells_of_parameters(nbformat.read(path, as_version=4))
    return {name: ast.literal_eval(value) for cell in cells[:1] for name, value in _assignments(cell.source).items()}


def _cells_of_parameters(notebook: "NotebookNode") -> list["NotebookNode"]:
    return [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]


def _assignments(source: str) -> dict[str, ast.expr]:
    """Find what is assigned to each name."""
    return {
        target.id: node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _set_parameters(notebook: "NotebookNode", parameters: Mapping[str, Any], path: Path) -> None:
    """Replace the values assigned in the cell tagged "parameters"."""
    cells = _cells_of_parameters(notebook)
    source = cells[0].source if cells else ""
    assignments = _assignments(source)
    unknown = sorted(set(parameters) - set(assignments))
    if unknown:
        raise ValueError(
            f"{path.name} has no parameter {', '.join(unknown)}; the cell tagged 'parameters' assigns "
            f"{', '.join(assignments) or 'none'}"
        )
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    text = source.encode()
    # From the last to the first, so that places found before stay right. ast counts columns in bytes.
    for name in sorted(parameters, key=lambda name: assignments[name].lineno, reverse=True):
        value = assignments[name]
        begin = starts[value.lineno - 1] + value.col_offset
        end = starts[(value.end_lineno or value.lineno) - 1] + (value.end_col_offset or 0)
        given = parameters[name]
        text = text[:begin] + repr(str(given) if isinstance(given, Path) else given).encode() + text[end:]
    if cells:
        cells[0].source = text.decode()


class _Diary:
    """Prints which cell runs and for how long, and that a long one still does."""

    def __init__(self, notebook: "NotebookNode"):
        self.began = time.monotonic()
        self.here = "the start"
        self._titles = _titles(notebook)
        self._done = threading.Event()
        self._since: float | None = None
        self._pulse = threading.Thread(target=self._beat, daemon=True)
        self._pulse.start()

    def start(self, cell: Any, cell_index: int) -> None:
        if cell.cell_type == "code":
            self.here = self._titles[cell_index]
            self._since = time.monotonic()
            self.say(self.here)

    def complete(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        self._since = None

    def close(self) -> None:
        self._done.set()
        self._pulse.join()
        self.say("end")

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT):
            since = self._since
            if since is not None and time.monotonic() - since > HEARTBEAT:
                self.say(f"{self.here} … {time.monotonic() - since:.0f} s")

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)


def _titles(notebook: "NotebookNode") -> dict[int, str]:
    """Name each code cell: its number, the heading above it, its first line."""
    total = sum(cell.cell_type == "code" for cell in notebook.cells)
    titles, heading, number = {}, "", 0
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            found = re.findall(r"^#+\s+(.+)$", cell.source, flags=re.MULTILINE)
            heading = found[-1] if found else heading
        elif cell.cell_type == "code":
            number += 1
            line = next((line for line in cell.source.splitlines() if line.strip() and not line.startswith("#")), "")
            titles[index] = f"{number}/{total} {heading}: {line.strip()[:70]}"
    return titles
