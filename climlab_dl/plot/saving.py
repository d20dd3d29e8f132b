"""Pages to keep: what a notebook shows as one file, which opens without a kernel and asks no network for anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from climlab_dl.files import write_text
from climlab_dl.plot.cubes import holoviews

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.models import LayoutDOM

SLIDERS = "top_left"
"""Where sliders stand: beside a drawing as wide as the page they would lie beyond its edge."""

# Not the pages that Bokeh and Panel make of themselves: once Panel is imported, those link to files of its server.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{{ title | e }}</title>
{{ bokeh_css }}{{ bokeh_js }}
</head>
<body><main aria-label="{{ said | e }}">
{%- for root in roots %}<div id="{{ root.elementid }}" data-root-id="{{ root.id }}" style="display: contents"></div>
{%- endfor %}{{ body }}</main>{{ plot_script }}</body>
</html>
"""


def layout(drawn: "LayoutDOM", path: str | Path, *, title: str, said: str) -> Path:
    """Write a layout of Bokeh's own models as one self-contained page.

    Parameters
    ----------
    drawn
        What is to be seen.
    path
        Of the page; what is there is replaced.
    title
        For the browser's tab.
    said
        What the page shows, in words, for who does not see it.
    """
    from bokeh.core.templates import get_env
    from bokeh.embed import components
    from bokeh.resources import Resources

    library = Resources(mode="inline", components=["bokeh", "bokeh-widgets", "bokeh-tables"]).js_raw
    script, body = components(drawn)
    scripts = "\n".join(f"<script>{source}</script>" for source in library)
    page = get_env().from_string(_PAGE)
    return write_text(Path(path), page.render(title=title, said=said, bokeh_js=scripts, body=body, plot_script=script))


def save(drawn: Any, path: str | Path, *, title: str = "") -> Path:
    """Write what `posteriors` draws as one self-contained page, with its brushing and its sliders.

    Parameters
    ----------
    drawn
        HoloViews object, such as :func:`climlab_dl.plot.posteriors.corner` gives it.
    path
        Of the page; what is there is replaced.
    title
        For the browser's tab; by default the file's name without its ending.

    Returns
    -------
    Path
        The page.
    """
    import panel as pn
    from bokeh.core.templates import get_env
    from bokeh.core.validation import silenced
    from bokeh.core.validation.warnings import FIXED_SIZING_MODE
    from bokeh.resources import INLINE
    from panel.io.save import save as panel_save

    hv, path, page = holoviews(), Path(path), StringIO()
    shown = drawn.traverse(lambda element: element, [hv.Histogram, hv.Image])
    dims = dict.fromkeys(dim.pprint_label for element in shown for dim in element.dimensions())
    # HoloViews sizes the frames of its panels, where Bokeh expects sizes of the panels.
    with silenced(FIXED_SIZING_MODE), _inlining_styles():
        panel_save(
            pn.pane.HoloViews(drawn, center=False, widget_location=SLIDERS),
            page,  # pyright: ignore[reportArgumentType]  (its type parameter is unbound)
            embed=True,
            resources=INLINE,
            title=title or path.stem,
            template=get_env().from_string(_PAGE),
            template_variables={"said": ", ".join(("Interactive figure", *dims))},
            progress=False,
        )
    return write_text(path, page.getvalue())


def inline_styles(shown: Any, root: "Model", *_: Any) -> None:
    """Put Panel's style sheets into what is shown: Panel leaves links to its server even when told `inline`."""
    from bokeh.models import UIElement
    from panel.io.notebook import patch_inline_stylesheets

    for model in root.select({"type": UIElement}):
        assert isinstance(model, UIElement)
        patch_inline_stylesheets(model)


@contextmanager
def _inlining_styles() -> Iterator[None]:
    from panel.viewable import Viewable

    hooks = Viewable._preprocessing_hooks
    Viewable._preprocessing_hooks = [*hooks, inline_styles]
    try:
        yield
    finally:
        Viewable._preprocessing_hooks = hooks
