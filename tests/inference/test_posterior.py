import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from climlab_dl.cosmology import simulate, spectrum, volumes
from climlab_dl.inference import calibration, posterior
from climlab_dl.inference.likeness import Training
from climlab_dl.inference.summaries import Summaries
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.training.loop import train
from climlab_dl.training.losses import MSE
from climlab_dl.training.optimizers import AdamW
from climlab_dl.training.precision import Precision, native
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A network trained for some seconds on 48 tiny universes that differ in sigma_8 and Omega_m."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("posterior")
    preset = replace(
        simulate.tour(), particles=16, voxels=16, box_size_mpc_h=96.0, steps=3, redshifts=(0,), fixed={"n_s": 0.96},
        ranges={"Omega_m": (0.1, 0.5), "sigma_8": (0.5, 1.1)},
    )  # fmt: skip
    list(simulate.share(simulate.design(72, seed=1, preset=preset), folder / "universes"))
    small = CosmoFlow(
        size=None, features=(8, 16), kernels=(3, 3), strides=(1, 1), pooled=(True, True), hidden=(16,), dropout=0.0,
        initial_bias=0.0, norm="batch", padding="periodic",
    )  # fmt: skip
    data = Universes(source=folder / "universes", calibration=1 / 3, held_out=1 / 6)
    run = Run(data=data, model=small, loss=MSE(), optimizer=AdamW(learning_rate=1e-2), steps=150, batch_size=4,
              evaluate_every=50)  # fmt: skip
    for _ in train(run, folder / "run"):
        pass
    return folder / "run", run


@pytest.fixture(scope="module")
def fitted(trained):
    return posterior.fit(trained[0], symmetries=4)


@pytest.mark.slow
def test_the_posterior_of_a_held_out_universe_is_narrower_than_the_prior(fitted, trained):
    path = trained[1].data.files()["held_out"][0]
    draws = posterior.draw(fitted, path, n=4000, seed=1)
    assert list(draws.columns) == ["Omega_m", "sigma_8"]
    assert fitted.prior["sigma_8"] == pytest.approx((0.5, 1.1), abs=1e-6)
    assert draws.attrs["prior"] == fitted.prior
    assert "linear" in fitted.method
    assert "24 universes" in fitted.method
    prior_spread = 0.6 / np.sqrt(12)
    sigma = draws["sigma_8"].to_numpy(dtype=float)
    assert sigma.std() < 0.6 * prior_spread
    truth = next(volumes.read(path)).parameters["sigma_8"]
    assert abs(sigma.mean() - truth) < 4 * sigma.std()
    assert posterior.draw(fitted, path, n=4000, seed=1).equals(draws)


@pytest.mark.slow
def test_log_probability_is_higher_at_the_truth_than_far_from_it(fitted, trained):
    volume = next(volumes.read(trained[1].data.files()["held_out"][0]))
    truth = posterior.draw(fitted, volume, n=1)
    truth[:] = [[volume.parameters[name] for name in fitted.names]]
    far = truth.copy()
    far["sigma_8"] = 0.5 if volume.parameters["sigma_8"] > 0.8 else 1.1
    outside = truth.assign(Omega_m=0.7)
    near, away, nowhere = (posterior.log_prob(fitted, volume, one)[0] for one in (truth, far, outside))
    assert near > away + 2
    assert nowhere == -np.inf


@pytest.mark.slow
def test_held_out_universes_are_checked_and_compared_with_baselines(fitted, trained):
    files = trained[1].data.files()
    with pytest.warns(UserWarning, match="12 universes of known parameters can hardly tell"):
        checked = calibration.check(fitted, files["held_out"], draws=200)
    assert checked.truth.shape == (12, 2)
    table = posterior.accuracy(fitted)
    expected = spectrum.baselines(volumes.open(files["training"]), volumes.open(files["held_out"]))
    assert table.loc["prior", "sigma_8"] == pytest.approx(expected.loc["prior", "sigma_8"])
    assert list(table.index[:2]) == ["posterior mean", "network, raw"]
    assert table.loc["network, raw", "sigma_8"] < 0.6 * table.loc["prior", "sigma_8"]
    missed = fitted.to_physical(checked.draws.mean(1)) - fitted.to_physical(checked.truth)
    expected = np.sqrt(np.mean(missed**2, axis=0))
    np.testing.assert_allclose(table.loc["posterior mean"].to_numpy(dtype=float), expected, rtol=0.05)
    assert len(posterior.held_out(fitted)) == 12


@pytest.mark.slow
def test_turning_the_volume_hardly_changes_the_summary(trained):
    # Averaged over all 48 symmetries, the summary cannot depend on how the box is turned.
    network = Summaries.load(trained[0], symmetries=48)
    volume = next(volumes.read(trained[1].data.files()["held_out"][1]))
    turned = replace(volume, counts=volumes.symmetry(volume.counts, 29))
    np.testing.assert_allclose(network(volume), network(turned), atol=1e-5)


@pytest.mark.slow
def test_what_does_not_fit_is_refused_in_words(fitted, trained, tmp_path):
    volume = next(volumes.read(trained[1].data.files()["held_out"][0]))
    with pytest.raises(ValueError, match="redshifts"):
        posterior.draw(fitted, replace(volume, counts=np.concatenate([volume.counts] * 2, axis=-1)))
    with pytest.raises(ValueError, match="at least one"):
        posterior.draw(fitted, volume, n=0)
    with pytest.raises(ValueError, match="auto, flow or linear"):
        posterior.fit(trained[0], method="spline")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        posterior.fit(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"too few calibration universes for 2 .*: found 1; give at least 7"):
        posterior.fit(trained[0], calibration=[volume])


@pytest.mark.slow
def test_a_contrast_in_place_of_counts_has_no_posterior(fitted, trained):
    volume = next(volumes.read(trained[1].data.files()["held_out"][0]))
    contrast = (volume.counts / volume.counts.mean(dtype=np.float64) - 1).astype(np.float32)
    holes = np.where(contrast < 0, np.nan, contrast)
    for counts, found in (
        (contrast, "counts go down to -1; .*a contrast instead of counts"),
        (holes, "not all finite"),
        (np.zeros_like(volume.counts), "it holds no particle"),
    ):
        wrong = replace(volume, counts=counts)
        point = posterior.draw(fitted, volume, n=1)
        for asked in (
            lambda wrong=wrong: posterior.draw(fitted, wrong),
            lambda wrong=wrong, point=point: posterior.log_prob(fitted, wrong, point),
            lambda wrong=wrong: posterior.fit(fitted.summaries, [wrong] * 9),
            lambda wrong=wrong: fitted.summaries.refitted([wrong] * 9),
        ):
            with pytest.raises(ValueError, match=f"{volume.source.name}: .*{found}"):
                asked()


@pytest.mark.slow
def test_volumes_unlike_the_trainings_are_said_in_the_log(fitted, trained, caplog):
    volume = next(volumes.read(trained[1].data.files()["held_out"][0]))
    posterior.draw(fitted, volume, n=1)
    assert not caplog.records
    for unlike, said in (
        (replace(volume, box_size_mpc_h=1000.0), "a box of 1000 Mpc/h, where the training's were 96"),
        (replace(volume, counts=50 * volume.counts), "50 particles per cell on average, where the training's had 1:"),
        (replace(volume, counts=volume.counts[:8, :8, :8]), "8 cells a side, where the training's had 16"),
    ):
        caplog.clear()
        posterior.draw(fitted, unlike, n=1)
        assert said in caplog.text
        assert str(volume.source) in caplog.text
    caplog.clear()
    posterior.draw(fitted, replace(volume, box_size_mpc_h=None, redshifts=None), n=1)
    assert "its file tells no redshifts (1 channel taken for 0, in this order); its file tells no box" in caplog.text
    assert "nothing is known" not in caplog.text
    caplog.clear()
    older = replace(fitted, summaries=replace(fitted.summaries, training=Training()))
    posterior.draw(older, replace(volume, box_size_mpc_h=1000.0), n=1)
    assert not caplog.records
    with pytest.raises(ValueError, match=r"has 1 redshift \(3\), the network was trained on 1 \(0\): .* at 0 as well"):
        posterior.draw(fitted, replace(volume, redshifts=np.array([3.0])))


@pytest.mark.slow
def test_volumes_of_two_universes_are_seen_to_contradict_each_other(fitted, trained, caplog):
    unseen = volumes.open([file for part in ("calibration", "held_out") for file in trained[1].data.files()[part]])
    low, *_, high = sorted(unseen, key=lambda volume: volume.parameters["sigma_8"])
    bare = [replace(volume, physical=None, unit=None) for volume in (low, high)]
    turned = replace(bare[0], counts=volumes.symmetry(bare[0].counts, 7))
    posterior.draw(fitted, [bare[0], turned], n=1)
    assert not caplog.records
    point = posterior.draw(fitted, bare, n=1)
    assert "estimates of 2 volumes contradict each other (p = " in caplog.text
    caplog.clear()
    posterior.log_prob(fitted, bare, point)
    assert "estimates of 2 volumes contradict each other (p = " in caplog.text


@pytest.mark.slow
def test_universes_without_scaled_parameters_say_so_or_are_scaled_by_the_prior(fitted, trained):
    read = volumes.open(trained[1].data.files()["calibration"])
    bare = [replace(volume, unit=None) for volume in read]
    with pytest.raises(
        ValueError, match=r"has not unitPar.* on which is seen how .*run.* give posterior\.fit the ends"
    ):
        posterior.fit(fitted.summaries, bare)
    given = posterior.fit(fitted.summaries, bare, prior={"sigma_8": (0.5, 1.1), "Omega_m": (0.1, 0.5)})
    assert given.prior == {"Omega_m": (0.1, 0.5), "sigma_8": (0.5, 1.1)}
    assert posterior.draw(given, bare[0], n=50).to_numpy() == pytest.approx(
        posterior.draw(fitted, bare[0], n=50).to_numpy(), abs=1e-5
    )
    with pytest.raises(ValueError, match="outside the prior"):
        posterior.fit(fitted.summaries, bare, prior={"Omega_m": (0.1, 0.5), "sigma_8": (0.5, 0.6)})
    with pytest.raises(ValueError, match="prior has no sigma_8"):
        posterior.fit(fitted.summaries, bare, prior={"Omega_m": (0.1, 0.5)})
    misnamed = {"om": (0.1, 0.5), "s8": (0.5, 1.1)}
    with pytest.raises(ValueError, match="no Omega_m, sigma_8, and om, s8 is no parameter of the network; give both"):
        posterior.fit(fitted.summaries, bare, prior=misnamed)
    with pytest.raises(ValueError, match=r"prior\['sigma_8'\] = \(1\.1, 0\.5\); give two numbers, the low end first"):
        posterior.fit(fitted.summaries, bare, prior={"Omega_m": (0.1, 0.5), "sigma_8": (1.1, 0.5)})
    with pytest.raises(ValueError, match="has not the parameter sigma_8"):
        posterior.fit(fitted.summaries, [replace(volume, names=("Omega_m", "s8")) for volume in bare])


@pytest.mark.slow
def test_a_run_without_a_calibration_split_says_what_to_do(trained):
    network = Summaries.load(trained[0])
    bare = replace(network, run=replace(network.run, data=replace(network.run.data, calibration=0.0)), samples=None)
    with pytest.raises(ValueError, match=r"Universes\(calibration=0\.2\)"):
        posterior.fit(bare)


@pytest.mark.slow
def test_universes_that_came_since_the_training_are_no_reason_to_calibrate_on_what_it_learnt(trained, tmp_path):
    folder, run = trained
    mine = shutil.copytree(str(run.data.source), tmp_path / "mine")
    network = replace(Summaries.load(folder), run=replace(run, data=replace(run.data, source=mine)))
    there = network.universes()["calibration"]
    (mine / "universe_a.h5").write_bytes((mine / "universe_00000.h5").read_bytes())
    with pytest.raises(ValueError, match="mine has not the samples that this training began with"):
        posterior.fit(network)
    (mine / "universe_a.h5").unlink()
    assert network.universes()["calibration"] == there


def test_intervals_are_the_draws_quantiles():
    import pandas as pd

    table = posterior.intervals(pd.DataFrame({"sigma_8": np.linspace(0, 1, 10_001)}))
    found = table.loc["sigma_8", ["median", "68% low", "68% high", "95% low", "95% high"]].to_numpy(dtype=float)
    np.testing.assert_allclose(found, [0.5, 0.16, 0.84, 0.025, 0.975], atol=1e-6)


@pytest.mark.slow
def test_a_refitted_last_layer_errs_no_more_on_what_it_is_fitted_to(trained):
    network = Summaries.load(trained[0], symmetries=1)
    training = trained[1].data.files()["training"]
    refitted = network.refitted(training)
    errors = []
    for each in (network, refitted):
        found, physical, _ = each.of(training)
        errors.append(np.sqrt(np.mean((found - physical) ** 2, axis=0)))
    # Least squares over all universes, but for the penalty: the weights that training left cannot be better by much.
    assert (errors[1] < 1.05 * errors[0]).all()
    again = posterior.fit(trained[0], symmetries=1, refit=True)
    first = next(volumes.read(training[0]))
    np.testing.assert_allclose(again.summaries(first), refitted(first))


@pytest.mark.slow
def test_an_ensemble_gives_the_mean_of_its_networks_and_knows_its_universes(trained, tmp_path):
    folder, run = trained
    for _ in train(replace(run, seed=1, steps=20), tmp_path / "seed1"):
        pass
    volume = next(volumes.read(run.data.files()["held_out"][0]))
    one, other = (Summaries.load(each, symmetries=2) for each in (folder, tmp_path / "seed1"))
    both = Summaries.load(folder, tmp_path / "seed1", symmetries=2)
    np.testing.assert_allclose(both(volume), (one(volume) + other(volume)) / 2)
    refitted = posterior.fit((folder, tmp_path / "seed1"), symmetries=2, refit=True)
    assert len(refitted.summaries.models) == 2
    for each in (folder, tmp_path / "seed1"):
        assert str(each) in repr(refitted)
        assert str(each) in refitted._repr_html_()
        assert str(each) in refitted.summaries._repr_html_()
    assert abs(refitted.summary(volume)).max() < 1.5
    for _ in train(replace(run, data=replace(run.data, held_out=0.25), steps=1), tmp_path / "other"):
        pass
    with pytest.raises(ValueError, match="not trained on the same universes"):
        Summaries.load(folder, tmp_path / "other")


@pytest.mark.slow
def test_a_network_trained_in_half_precision_is_asked_in_it_where_the_cpu_can(trained, tmp_path):
    run = replace(trained[1], precision=Precision(kind="bf16"), steps=2)
    for _ in train(run, tmp_path / "run"):
        pass
    network = Summaries.load(tmp_path / "run", symmetries=2)
    assert network.precision.kind == ("bf16" if native(torch.bfloat16) else "fp32")
    volume = next(volumes.read(run.data.files()["held_out"][0]))
    whole = replace(network, precision=Precision())
    # Eight bits of mantissa, and a few layers: a hundredth of the parameters' ranges.
    np.testing.assert_allclose(network(volume), whole(volume), atol=0.01)
    assert Summaries.load(trained[0]).precision.kind == "fp32"


@pytest.mark.slow
def test_baselines_see_no_more_redshifts_than_the_network(tmp_path):
    preset = replace(simulate.tour(), particles=12, voxels=12, box_size_mpc_h=48.0, steps=3)
    list(simulate.share(simulate.design(64, seed=0, preset=preset), tmp_path / "universes"))
    small = CosmoFlow(
        size=None, features=(4,), kernels=(3,), strides=(1,), pooled=(True,), hidden=(4,), padding="periodic"
    )
    data = Universes(source=tmp_path / "universes", redshifts=(1.5,), calibration=0.25, held_out=0.25)
    for _ in train(Run(data=data, model=small, loss=MSE(), steps=2, batch_size=4), tmp_path / "run"):
        pass
    table = posterior.accuracy(posterior.fit(tmp_path / "run", symmetries=1))
    files = data.files()
    parts = [[v.at((1.5,)) for v in volumes.open(files[part])] for part in ("training", "held_out")]
    expected = spectrum.baselines(*parts).loc["ridge ln P"]
    assert table.loc["ridge ln P"].to_numpy() == pytest.approx(expected[table.columns].to_numpy())


def test_a_fit_to_nothing_or_to_no_run_says_what_is_expected(tmp_path):
    with pytest.raises(ValueError, match="run is empty: give a run's folder or a checkpoint, or several"):
        posterior.fit([])
    for nonsense, found in ((3, "int"), (None, "NoneType"), ([np.zeros(3)], "ndarray")):
        with pytest.raises(TypeError, match=f"expected the path of a run's folder or of a checkpoint; found a {found}"):
            posterior.fit(nonsense)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError, match="does not exist; give a run's folder"):
        posterior.fit(tmp_path / "nowhere.pt")
