"""Names and values as a small table, in which objects show themselves in notebooks."""

import html
from collections.abc import Mapping
from typing import Any


def card(rows: Mapping[str, Any], title: str = "") -> str:
    """Lay out names and values as HTML; several values of one name are joined by commas.

    Parameters
    ----------
    rows
        Text, numbers, or sequences of them. What is empty is left out.
    title
        What it is that shows itself.
    """
    shown = {
        name: ", ".join(map(str, one)) if isinstance(one, list | tuple) else str(one) for name, one in rows.items()
    }
    cells = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for name, text in shown.items()
        if text
    )
    caption = f"<caption style='text-align:left;font-weight:bold'>{html.escape(title)}</caption>" if title else ""
    return f"<table>{caption}{cells}</table>"
