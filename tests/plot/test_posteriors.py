import numpy as np
import pandas as pd
import pytest

from climlab_dl.plot import posteriors, spectra

PRIOR = {"Omega_m": (0.1, 0.5), "sigma_8": (0.6, 1.0), "n_s": (0.8, 1.2)}
TRUTH = {"Omega_m": 0.3, "sigma_8": 0.8, "n_s": 1.0}
# The line of the draws' median spectrum, in the page.
LINE = """() => {
    const sources = [...Bokeh.documents[0]._all_models.values()].filter(m => m.data && m.data['power']);
    return Array.from(sources.find(m => m.name !== 'truth' && m.data['power'].length == 25).data['power']);
}"""


@pytest.fixture(scope="module")
def draws() -> pd.DataFrame:
    random = np.random.default_rng(0)
    made = pd.DataFrame({name: random.normal(TRUTH[name], 0.03, 4000) for name in PRIOR})
    made.attrs["prior"] = PRIOR
    return made


def test_the_corner_has_a_panel_for_every_parameter_and_pair(draws):
    import holoviews as hv

    layout = posteriors.corner(draws, truth=TRUTH)
    assert len(layout) == 9
    dots = layout.traverse(lambda points: points, [hv.Points])
    assert len(dots) == 3
    assert {tuple(d.name for d in points.kdims) for points in dots} == {
        ("Omega_m", "sigma_8"), ("Omega_m", "n_s"), ("sigma_8", "n_s"),
    }  # fmt: skip
    assert all(len(points) == posteriors.DOTS for points in dots)
    assert len(layout.traverse(lambda h: h, [hv.Histogram])) == 6


@pytest.mark.slow
def test_panels_share_one_source_and_the_brush_is_tied_to_it(draws):
    import holoviews as hv
    from bokeh.models import ColumnDataSource, CustomJS

    for tables in (draws, {"one": draws, "other": draws * 1.01}, draws[["Omega_m", "sigma_8"]]):
        layout = posteriors.corner(tables)
        for root in (hv.render(layout), hv.render(layout)) if tables is draws else (hv.render(layout),):
            shared = [s for s in root.select({"type": ColumnDataSource}) if {"Omega_m", "sigma_8"} <= set(s.data)]
            tied = [s for s in shared if s.selected.js_property_callbacks]
            assert len(tied) == (2 if isinstance(tables, dict) else 1)
            follow = next(iter(tied[0].selected.js_property_callbacks.values()))[0]
            assert isinstance(follow, CustomJS)


def test_the_axes_of_draws_do_not_go_beyond_the_prior():
    # Draws that fill the prior of one parameter, and a tenth of that of the other.
    random = np.random.default_rng(3)
    wide = pd.DataFrame({"Omega_m": random.uniform(0.1, 0.5, 4000), "sigma_8": random.uniform(0.78, 0.82, 4000)})
    wide.attrs["prior"] = {name: PRIOR[name] for name in wide}
    panel = posteriors.static(wide, span="draws").axes[2]
    assert panel.get_xlim() == posteriors.static(wide, span="prior").axes[2].get_xlim()
    assert panel.get_xlim() == pytest.approx((0.1 - 0.016, 0.5 + 0.016))
    # 0.04 wide and a third of that on either side.
    assert panel.get_ylim() == pytest.approx((0.78 - 0.0133, 0.82 + 0.0133), abs=1e-3)
    # Somebody else's draws may lie outside the prior, and are shown all the same.
    outside = posteriors.static(wide, prior={"Omega_m": (0.3, 0.4)}, span="draws").axes[2]
    assert outside.get_xlim() == pytest.approx((0.1, 0.5), abs=1e-3)


def test_numbers_at_the_axes_of_a_corner_have_room(draws):
    import holoviews as hv
    from bokeh.models import BasicTicker, Plot

    panels = list(hv.render(posteriors.corner(draws[["Omega_m", "sigma_8"]])).select({"type": Plot}))
    assert len(panels) == 3
    for panel in panels:
        # "0.9625" is 37 pixels wide at Bokeh's 11, of which half lies beyond the frame if it stands at its end.
        assert panel.min_border_right >= 19
        # Bokeh takes up to one and a half times as many: 6 of "0.95", 26 pixels each, fit below 190, not 9 of them.
        ticker = panel.below[0].ticker
        assert isinstance(ticker, BasicTicker)
        assert ticker.desired_num_ticks == 4


def test_tables_that_cannot_be_shown_are_refused(draws):
    with pytest.raises(ValueError, match="no draws"):
        posteriors.corner(draws.iloc[:0])
    with pytest.raises(ValueError, match="different parameters"):
        posteriors.corner({"one": draws, "other": draws[["n_s"]]})
    with pytest.raises(ValueError, match="at most 4"):
        posteriors.corner({str(i): draws for i in range(5)})


@pytest.mark.parametrize("draw", [posteriors.corner, posteriors.static])
def test_what_is_known_of_other_parameters_is_refused(draws, draw):
    two = draws[["Omega_m", "sigma_8"]]
    for what, values in (("truth", {"Om": 0.3, "sigma8": 0.8}), ("prior", {"Om": (0.1, 0.5), "sigma8": (0.6, 1.0)})):
        with pytest.raises(ValueError, match=f"{what} has Om, sigma8, which was not drawn; .* have Omega_m, sigma_8"):
            draw(two, **{what: values})
        with pytest.raises(TypeError, match=f"{what} is a list; give it by name, as a dict of Omega_m, sigma_8"):
            draw(two, **{what: [*values.values()]})
    with pytest.raises(ValueError, match="truth has sigma8, which"):
        draw(two, truth={"Omega_m": 0.3, "sigma8": 0.8})


def test_a_universe_may_tell_more_parameters_than_are_drawn_or_fewer(draws):
    for known in (TRUTH, {"sigma_8": 0.8}, {}):
        posteriors.static(draws[["Omega_m", "sigma_8"]], truth=known)


def test_the_static_twin_is_written_whole(draws, tmp_path):
    figure = posteriors.static({"one": draws, "other": draws * 1.01}, truth=TRUTH, path=tmp_path / "corner.png")
    assert (tmp_path / "corner.png").read_bytes()[:4] == b"\x89PNG"
    assert len(figure.axes) == 9
    assert [p.name for p in tmp_path.iterdir()] == ["corner.png"]


@pytest.mark.browser
@pytest.mark.slow
def test_brushing_one_panel_moves_histograms_and_table_without_a_kernel(draws, tmp_path, browser):
    page_file = posteriors.save(posteriors.corner(draws, truth=TRUTH), tmp_path / "corner.html")
    page = browser.new_context(offline=True, viewport={"width": 1200, "height": 850}).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(page_file.as_uri())
    page.get_by_text("Select draws").wait_for()
    before = page.get_by_role("table").inner_text()
    line = page.evaluate(LINE)
    # With the mouse, in the panel of Omega_m and sigma_8: all of the first, of the second what is above 0.83.
    page.get_by_title("Box Select").first.click()
    panel = page.evaluate(
        """() => {
            const views = Object.values(Bokeh.index).flatMap(function below(view) {
                return [view, ...(view.child_views ?? []).flatMap(below)];
            });
            const view = views.find(v => v.model.x_range && v.model.x_range.start < 0.15 && v.model.y_range.end < 1.1);
            const area = view.canvas_view.el.getBoundingClientRect();
            const {x_scale, y_scale} = view.frame;
            const at = (px, py) => [area.x + x_scale.compute(px), area.y + y_scale.compute(py)];
            return [at(0.11, 0.83), at(0.49, 0.99)];
        }"""
    )
    page.mouse.move(*panel[0])
    page.mouse.down()
    page.mouse.move(*panel[1], steps=8)
    page.mouse.up()
    page.get_by_text("are selected").wait_for()
    moved = page.evaluate(LINE)
    after = page.get_by_role("table").inner_text()
    page.context.close()
    assert not faults
    # Draws above one spread over the mean: their median is 1.53 spreads above it, 0.846; nobody else moves.
    rows = [line.split("\t") for line in after.splitlines() if "…" in line]
    medians = [float(row[-2]) for row in rows]
    assert medians == pytest.approx([0.3, 0.846, 1.0], abs=0.01)
    assert before != after
    # Power goes with sigma_8 squared: at k = 0.2 h/Mpc, where the other parameters hardly matter, by (0.846 / 0.8)^2.
    near = int(np.argmin(np.abs(spectra.K - 0.2)))
    assert line[near] == pytest.approx(1, abs=0.01)
    assert moved[near] == pytest.approx((0.846 / 0.8) ** 2, abs=0.03)


def test_the_corner_without_a_slope_shows_no_spectra(draws):
    import holoviews as hv

    assert len(posteriors.corner(draws).traverse(lambda a: a, [hv.Area])) == 1
    assert posteriors.corner(draws[["Omega_m", "sigma_8"]]).traverse(lambda a: a, [hv.Area]) == []


def test_the_corner_says_why_it_shows_no_spectra(draws):
    import holoviews as hv

    for renamed, said in (({"n_s": "w0"}, "linear theory does not know w0"), ({"n_s": "h"}, "linear theory needs n_s")):
        layout = posteriors.corner(draws.rename(columns=renamed))
        assert layout.traverse(lambda a: a, [hv.Area]) == []
        assert any(said in div.data for div in layout.traverse(lambda d: d, [hv.Div]))
    assert not any("No power" in div.data for div in posteriors.corner(draws).traverse(lambda d: d, [hv.Div]))


def test_no_bar_of_a_histogram_is_cut_by_the_priors_end():
    import holoviews as hv

    # 3000 dots that fill the prior: its density, 2.5, in every bin but for a spread of 11%; half of it in a cut one.
    flat = pd.DataFrame({name: np.random.default_rng(4).uniform(0.1, 0.5, 3000) for name in ("Omega_m", "sigma_8")})
    flat.attrs["prior"] = dict.fromkeys(flat, (0.1, 0.5))
    bars = posteriors.corner(flat).traverse(lambda h: h, [hv.Histogram])[0]
    edges, heights = bars.edges, bars.dimension_values(1)
    on_paper = np.asarray(posteriors.static(flat).axes[0].patches[0].get_path().vertices, dtype=float)
    for end in (0.1, 0.5):
        assert np.abs(edges - end).min() < 1e-12
        assert np.abs(on_paper[:, 0] - end).min() < 1e-12
    np.testing.assert_allclose(heights[heights > 0.1], 2.5, rtol=0.4)
    assert (heights > 0.1).sum() == 36
