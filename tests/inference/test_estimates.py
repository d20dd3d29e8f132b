import numpy as np
import pytest

from climlab_dl.inference import estimates

PRIOR = {"Omega_m": (0.25, 0.35), "sigma_8": (0.78, 0.95)}


def published(universes: int = 120, parts: int = 40, *, shared: float, own: float, seed: int = 0):
    """Estimates of parts of universes, off by what all parts of a universe share and by what each has for itself."""
    random = np.random.default_rng(seed)
    low, high = np.array(list(PRIOR.values())).T
    truth = low + random.uniform(0.1, 0.9, (universes, 2)) * (high - low)
    common = random.normal(size=(universes, 1, 2)) * shared * (high - low) / 2
    noise = random.normal(size=(universes, parts, 2)) * own * (high - low) / 2
    found = truth[:, None] + common + noise
    return np.repeat(truth, parts, axis=0), found.reshape(-1, 2)


def test_errors_that_the_parts_share_make_their_scatter_too_narrow_a_posterior():
    checked = estimates.as_draws(*published(shared=0.15, own=0.05), prior=PRIOR)
    assert checked.truth.shape == (120, 2)
    assert checked.draws.shape == (120, 40, 2)
    assert not checked.ok
    # An error of 0.15 with a claimed spread of 0.05: the 68% interval is a third of a spread, which holds 26%.
    assert checked.coverage((0.68,))[list(PRIOR)].to_numpy() == pytest.approx(0.26, abs=0.12)


def test_posteriors_learnt_from_other_universes_are_calibrated():
    checked = estimates.crossed(*published(shared=0.15, own=0.05), prior=PRIOR)
    assert checked.ok
    table = checked.errors()
    np.testing.assert_allclose(table["rmse"], table["posterior std"], rtol=0.2)
    assert checked.prior == PRIOR
    np.testing.assert_allclose(checked.in_physical(np.array([-1.0, 1.0])), [0.25, 0.95])


def test_tables_that_do_not_fit_are_refused():
    truth, found = published(universes=30, parts=5, shared=0.1, own=0.1)
    with pytest.raises(ValueError, match="only 5 estimates"):
        estimates.as_draws(truth, found, prior=PRIOR)
    with pytest.raises(ValueError, match=r"\(150, 2\).*\(150, 1\)"):
        estimates.crossed(truth, found[:, :1], prior=PRIOR)
    with pytest.raises(ValueError, match="outside the prior"):
        estimates.crossed(truth, found, prior={**PRIOR, "sigma_8": (0.9, 0.95)})
    with pytest.raises(ValueError, match="folds = 31 parts of 30 universes; choose 2 parts to one for each"):
        estimates.crossed(truth, found, prior=PRIOR, folds=31)
    with pytest.raises(ValueError, match="only 1 estimate; as draws"):
        estimates.as_draws(truth[::5], found[::5], prior=PRIOR)


def test_few_universes_of_others_are_said():
    few = published(universes=12, parts=30, shared=0.1, own=0.1)
    with pytest.warns(UserWarning, match="12 universes of known parameters can hardly tell"):
        estimates.as_draws(*few, prior=PRIOR)
    with pytest.warns(UserWarning, match="at least 30"):
        estimates.crossed(*few, prior=PRIOR)


def test_the_published_runs_are_too_sure_of_themselves(shared):
    # 49 universes of 2018: more ranks were worse, and a universe's own scatter hides what the network gets wrong in it.
    errors = {}
    for run in ("pred_512nodes_106epochs", "pred_hero8192"):
        table = np.load(shared / "cosmology" / "cosmoflow2018" / f"{run}.npz")
        assert not estimates.as_draws(table["T"], table["P"], prior=PRIOR).tarp_ok
        learnt = estimates.crossed(table["T"], table["P"], prior=PRIOR)
        assert learnt.tarp_ok
        errors[run] = learnt.errors()["rmse"]
    assert (errors["pred_hero8192"] > errors["pred_512nodes_106epochs"]).all()
