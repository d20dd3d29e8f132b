"""Linked brushing that a saved page does by itself: histograms and a table follow the selected draws.

HoloViews gives the panels of one table one data source, so a selection in one panel is one in all of them. What is left
to the page is to count the selected draws in the histograms, to draw their power spectra and to rewrite the table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

Hook = Callable[[Any, Any], None]
# The spectra's dimension, by which the page finds the line that it is to move.
POWER = "power"

_ROW = (
    "<tr><td style='color:{color}'>&#9632; {run}</td><td>{label}</td><td>{truth}</td><td>{middle}</td>"
    "<td>{low} … {high}</td></tr>"
)
_TABLE = (
    "<table style='font:11px sans-serif;border-spacing:6px 3px;text-align:right;white-space:nowrap'>"
    "<tr><th></th><th></th><th>truth</th><th>median</th><th>68%</th></tr>{rows}</table>"
    "<span style='font:11px sans-serif'>{note}</span>"
)
_ALL = "Select draws with the box or the lasso."

_FOLLOW = """
const rows = [];
let count = 0, total = 0;
for (const {source, histograms, names, run, color, spectra, band, middle} of runs) {
  const chosen = source.selected.indices;
  const shown = spectra.filter((_, j) => !chosen.length || chosen.includes(j));
  if (shown.length) {
    const low = [], half = [], high = [];
    spectra[0].forEach((_, k) => {
      const column = shown.map(spectrum => spectrum[k]).sort((a, b) => a - b);
      const at = share => column[Math.min(column.length - 1, Math.floor(share * column.length))];
      low.push(at(.16)); half.push(at(.5)); high.push(at(.84));
    });
    band.data = {...band.data, y: [...low, ...high.reverse()]};
    middle.data = {...middle.data, [power]: half};
  }
  names.forEach((name, i) => {
    const all = Array.from(source.data[name]);
    const values = chosen.length ? chosen.map(j => all[j]) : all.slice();
    const {left, right} = histograms[i].data;
    const width = right[0] - left[0];
    const top = new Float64Array(left.length);
    for (const value of values) {
      const bin = Math.floor((value - left[0]) / width);
      if (bin >= 0 && bin < top.length) top[bin] += 1 / (all.length * width);
    }
    histograms[i].data = {...histograms[i].data, top};
    values.sort((a, b) => a - b);
    const at = share => values[Math.min(values.length - 1, Math.floor(share * values.length))].toFixed(3);
    rows.push(row.replace('{color}', color).replace('{run}', run).replace('{label}', labels[i])
      .replace('{truth}', truths[i]).replace('{low}', at(.16)).replace('{middle}', at(.5)).replace('{high}', at(.84)));
    if (i == 0) { count += chosen.length; total += all.length; }
  });
}
const note = count ? `${count} of ${total} draws shown are selected.` : hint;
const page = table.replace('{rows}', rows.join('')).replace('{note}', note);
div.text = page.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');  // the pane decodes what it shows
"""


@dataclass
class Brush:
    """Collects the models of one corner plot while HoloViews makes them, and ties them together when all are there.

    Parameters
    ----------
    colors
        Of each posterior, by name.
    labels
        Of each parameter, by name.
    truths
        Text of each parameter's truth, by name; may be empty.
    spectra
        Of each posterior: a row of :data:`POWER` for each of the first draws that are dots, by name; or none.
    """

    colors: Mapping[str, str]
    labels: Mapping[str, str]
    truths: Mapping[str, str]
    spectra: Mapping[str, Any] = field(default_factory=dict)
    _histograms: dict[tuple[str, str], Any] = field(default_factory=dict)
    _bands: dict[tuple[str, str], Any] = field(default_factory=dict)
    _sources: dict[str, Any] = field(default_factory=dict)
    _div: Any = None

    def histogram(self, run: str, name: str) -> Hook:
        """Make the hook of the histogram of one parameter's selected draws."""

        def hook(plot: Any, element: Any) -> None:
            if (run, name) == (next(iter(self.colors)), next(iter(self.labels))):
                self._forget()  # the first panel of a new rendering: what was collected belongs to the last one
            self._histograms[run, name] = plot.handles["source"]
            self._connect()

        return hook

    def spectrum(self, run: str, part: str) -> Hook:
        """Make the hook of the ``"band"`` or the ``"middle"`` of one posterior's power spectra."""

        def hook(plot: Any, element: Any) -> None:
            self._bands[run, part] = plot.handles["source"]
            self._connect()

        return hook

    def points(self, run: str) -> Hook:
        """Make the hook of one posterior's dots; HoloViews calls it again once the panels share their source."""

        def hook(plot: Any, element: Any) -> None:
            self._sources[run] = plot.handles["source"]
            self._connect()

        return hook

    def table(self, plot: Any, element: Any) -> None:
        """Serve as the hook of the table."""
        self._div = plot.handles["plot"]
        self._connect()

    def page_table(self, numbers: Mapping[tuple[str, str], tuple[float, float, float]]) -> str:
        """Table of low end, median and high end of each posterior and parameter."""
        rows = [
            _ROW.format(
                color=self.colors[run], run=escape(run), label=escape(self.labels[name]), truth=self.truths[name],
                low=f"{low:.3f}", middle=f"{middle:.3f}", high=f"{high:.3f}",
            )
            for (run, name), (low, middle, high) in numbers.items()
        ]  # fmt: skip
        return _TABLE.format(rows="".join(rows), note=_ALL)

    def _forget(self) -> None:
        self._histograms, self._bands, self._sources, self._div = {}, {}, {}, None

    def _connect(self) -> None:
        from bokeh.models import CustomJS

        names = list(self.labels)
        complete = len(self._histograms) == len(names) * len(self.colors) and self._div is not None
        complete &= len(self._bands) == 2 * len(self.spectra)
        shared = all(run in self._sources and set(names) <= set(self._sources[run].data) for run in self.colors)
        if not (complete and shared):
            return
        runs = [
            {
                "source": self._sources[run],
                "histograms": [self._histograms[run, name] for name in names],
                "names": names,
                "run": escape(run),
                "color": color,
                "spectra": np.round(self.spectra.get(run, []), 4).tolist(),
                "band": self._bands.get((run, "band")),
                "middle": self._bands.get((run, "middle")),
            }
            for run, color in self.colors.items()
        ]
        labels, truths = [escape(self.labels[name]) for name in names], [self.truths[name] for name in names]
        follow = CustomJS(
            args={
                "runs": runs, "labels": labels, "truths": truths, "div": self._div, "row": _ROW, "table": _TABLE,
                "hint": _ALL, "power": POWER,
            },
            code=_FOLLOW,
        )  # fmt: skip
        for run in self.colors:
            selected = self._sources[run].selected
            if "indices" not in {name.removeprefix("change:") for name in selected.js_property_callbacks}:
                selected.js_on_change("indices", follow)
