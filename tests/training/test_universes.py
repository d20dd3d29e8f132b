import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from climlab_dl.cosmology import hdf5, volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.losses import MSE, GaussianNLL
from climlab_dl.training.optimizers import Adam
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes


@pytest.fixture(scope="module")
def universes(tmp_path_factory):
    """20 cubes of Poisson counts whose mean is 2 plus the first parameter."""
    folder = tmp_path_factory.mktemp("universes")
    random = np.random.default_rng(0)
    for number in range(20):
        unit = random.uniform(-1, 1, 2)
        counts = random.poisson(2 + unit[0], (8, 8, 8, 2)).astype(np.int16)
        volume = Volume(
            counts=counts, source=folder, names=("Omega_m", "sigma_8"), unit=unit,
            physical=np.array([0.3, 0.8]) * (1 + 0.5 * unit), redshifts=np.array([0.0, 1.5]), box_size_mpc_h=8.0,
        )  # fmt: skip
        volumes.save(volume, folder / f"universe_{number:05d}.h5")
    return str(folder)


def test_the_split_is_by_universe_training_then_calibration_then_held_out(universes):
    files = Universes(source=universes, held_out=0.2, calibration=0.1).files()
    assert [len(files[name]) for name in ("training", "calibration", "held_out")] == [14, 2, 4]
    assert files["held_out"][-1].name == "universe_00019.h5"


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
def test_volumes_and_parameters_are_normalised_with_what_is_trained_on(universes, memory_gigabytes):
    data = Universes(source=universes, symmetries=False, memory_gigabytes=memory_gigabytes).prepare(seed=0)
    x = torch.stack([data.training[1, number][0] for number in range(16)])
    y = torch.stack([data.training[1, number][1] for number in range(16)])
    assert x.shape == (16, 2, 8, 8, 8)
    torch.testing.assert_close(x.mean(dim=(0, 2, 3, 4)), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(y.mean(dim=0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(y.std(dim=0, correction=0), torch.ones(2), atol=1e-5, rtol=0)
    volume = next(volumes.read(Universes(source=universes).files()["held_out"][0]))
    assert volume.physical is not None
    found = data.held_out[0, 0][1] * data.facts["target_std"] + data.facts["target_mean"]
    torch.testing.assert_close(found, torch.from_numpy(volume.physical), atol=1e-6, rtol=0)
    logs = np.log1p(volume.counts[..., 1].astype(np.float64))
    wanted = (logs - data.facts["mean"][1].item()) / data.facts["std"][1].item()
    np.testing.assert_allclose(data.held_out[0, 0][0][1], wanted, atol=1e-5)
    assert data.channels == ("z=0", "z=1.5")


def test_unit_targets_are_the_priors_minus_one_to_one(universes):
    data = Universes(source=universes, targets="unit").prepare(seed=0)
    volume = next(volumes.read(Universes(source=universes).files()["held_out"][0]))
    assert volume.unit is not None
    torch.testing.assert_close(data.held_out[0, 0][1].double(), torch.from_numpy(volume.unit), atol=1e-5, rtol=0)
    torch.testing.assert_close(data.facts["target_mean"], torch.tensor([0.3, 0.8], dtype=torch.float64))


def test_parameters_are_chosen_by_name(universes, tmp_path):
    assert Universes(source=universes, parameters=("sigma_8",)).prepare(seed=0).targets == ("sigma_8",)
    with pytest.raises(ValueError, match=r"has no H_0; choose of what it has: parameters=\('Omega_m', 'sigma_8'\)$"):
        Universes(source=universes, parameters=("H_0",)).prepare(seed=0)
    for number, volume in enumerate(volumes.open(universes)):
        volumes.save(replace(volume, names=(), unit=None, physical=None), tmp_path / f"bare_{number}.h5")
    with pytest.raises(ValueError, match="names no parameters; training needs namePar, and unitPar or physPar"):
        Universes(source=tmp_path, parameters=("H_0",)).prepare(seed=0)


def test_symmetries_and_shifts_keep_every_count_and_differ_by_epoch(universes):
    data = Universes(source=universes).prepare(seed=0)
    plain = Universes(source=universes, symmetries=False).prepare(seed=0)
    first, second = data.training[1, 0][0], data.training[2, 0][0]
    assert not torch.equal(first, second)
    for varied in (first, second):
        assert torch.equal(varied.flatten(1).sort()[0], plain.training[1, 0][0].flatten(1).sort()[0])
    # Both redshifts turn together: their values stay paired.
    pairs = {tuple(pair) for pair in plain.training[1, 0][0].flatten(1).T.tolist()}
    assert {tuple(pair) for pair in first.flatten(1).T.tolist()} <= pairs


def test_a_network_learns_the_parameter_that_the_counts_tell(universes, tmp_path):
    run = Run(
        data=Universes(source=universes, held_out=0.2),
        model=replace(CosmoFlow.small(), features=(8, 16), kernels=(3, 3), strides=(1, 1), pooled=(True, True)),
        loss=MSE(),
        optimizer=Adam(learning_rate=3e-3),
        steps=60,
        batch_size=4,
        report_every=30,
        evaluate_every=60,
    )
    reports = list(train(run, tmp_path / "mse"))
    assert reports[-1].metrics["mae_Omega_m"] < 0.5 * reports[-1].metrics["baseline_mae_Omega_m"]
    assert RunFolder(tmp_path / "mse").progress().mae_Omega_m.notna().sum() == 1
    seen = RunFolder(tmp_path / "mse").held_out()
    assert seen is not None
    true = [next(volumes.read(path)).parameters["Omega_m"] for path in Universes(source=universes).files()["held_out"]]
    np.testing.assert_allclose(seen.truth.sel(parameter="Omega_m"), true, rtol=1e-6)
    error = np.abs(seen.estimate - seen.truth).mean("universe").sel(parameter="Omega_m").item()
    assert error == pytest.approx(reports[-1].metrics["mae_Omega_m"])
    reports = list(train(replace(run, loss=GaussianNLL(), steps=2), tmp_path / "nll"))
    assert set(reports[-1].metrics) >= {"mae_Omega_m", "mae_sigma_8", "relative_error_sigma_8", "mae_mean"}


def test_universes_other_than_a_training_began_with_are_refused(universes, tmp_path):
    mine = shutil.copytree(universes, tmp_path / "mine")
    data = Universes(source=str(mine), calibration=0.1)
    known = data.prepare(0).facts
    data.prepare(0, known)
    shutil.copytree(mine, tmp_path / "moved")
    replace(data, source=str(tmp_path / "moved")).prepare(0, known)
    shutil.copy(mine / "universe_00000.h5", mine / "universe_00020.h5")
    with pytest.raises(ValueError, match=r"mine has not the samples .*training: 14 from universe_00000.h5 .*; now 15"):
        data.prepare(0, known)


def test_universes_named_by_a_parameter_are_split_at_random(universes, tmp_path):
    for path in volumes.files(universes):
        volume = next(volumes.read(path))
        shutil.copy(path, tmp_path / f"Om{volume.parameters['Omega_m']:.6f}.h5")
    by_name = Universes(source=str(tmp_path), held_out=0.4)
    with pytest.raises(ValueError, match=r"Omega_m is .* in the others.*Universes\(shuffle=True\)"):
        by_name.prepare(0)
    shuffled = replace(by_name, shuffle=True)
    prepared, files = shuffled.prepare(0), shuffled.files()
    assert [path.name for path in files["held_out"]] == [
        prepared.held_out.describe(number).rpartition("/")[2] for number in range(8)
    ]
    assert files == shuffled.files(prepared.facts)
    assert sorted(path for part in files.values() for path in part) == volumes.files(str(tmp_path))
    assert files["training"] != by_name.files()["training"]


def test_redshifts_are_chosen_by_number(universes):
    both = Universes(source=universes, symmetries=False).prepare(seed=0)
    one = Universes(source=universes, symmetries=False, redshifts=(1.5,)).prepare(seed=0)
    assert one.channels == ("z=1.5",)
    torch.testing.assert_close(one.training[1, 3][0][0], both.training[1, 3][0][1])
    with pytest.raises(ValueError, match=r"no redshift 3 \(it has 0, 1\.5\)"):
        Universes(source=universes, redshifts=(0.0, 3.0)).prepare(seed=0)


def test_a_learning_curve_has_one_held_out_part(universes):
    whole, few = Universes(source=universes).files(), Universes(source=universes, at_most=5).files()
    assert few["training"] == whole["training"][:5]
    assert few["held_out"] == whole["held_out"]
    assert len(Universes(source=universes, at_most=5).prepare(seed=0).training) == 5
    with pytest.raises(ValueError, match="at_most=1"):
        Universes(source=universes, at_most=1)


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
def test_what_cannot_be_counts_is_not_trained_on(universes, tmp_path, memory_gigabytes):
    # Counts are looked up in a table: an overflow of int16 must not get the logarithm of a large count.
    volume = next(volumes.read(Universes(source=universes).files()["training"][0]))
    for number in range(4):
        counts = volume.counts.copy()
        counts[0, 0, 0, 0] = -5 if number == 3 else 1
        physical = np.array([0.3, 0.8]) + 0.01 * number
        hdf5.save(replace(volume, counts=counts, physical=physical), tmp_path / f"{number}.h5")  # as another's program
    with pytest.raises(ValueError, match=r"3\.h5: counts go down to -5; an overflow of int16 or a contrast"):
        Universes(source=tmp_path, held_out=0.25, memory_gigabytes=memory_gigabytes).prepare(seed=0).held_out[0, 0]
    contrast = volume.counts / volume.counts.mean(dtype=np.float64) - 1
    hdf5.save(replace(volume, counts=contrast.astype(np.float32)), tmp_path / "0.h5")
    with pytest.raises(ValueError, match=r"0\.h5: counts go down to -1; .* a contrast instead of counts"):
        Universes(source=tmp_path, held_out=0.25, memory_gigabytes=memory_gigabytes).prepare(seed=0)


def test_redshifts_in_another_order_are_refused_and_can_be_taken_by_value(universes, tmp_path):
    for number, path in enumerate(Universes(source=universes).files()["training"][:4]):
        volume = next(volumes.read(path))
        if number == 2:
            volume = replace(volume, counts=volume.counts[..., ::-1], redshifts=np.array([1.5, 0.0]))
        volumes.save(volume, tmp_path / path.name)
    with pytest.raises(
        ValueError, match=r"00002\.h5 has redshifts 1\.5, 0; expected 0, 1\.5, .*redshifts=\(0\.0, 1\.5\)"
    ):
        Universes(source=tmp_path, symmetries=False).prepare(seed=0)
    found = Universes(source=tmp_path, symmetries=False, redshifts=(0.0, 1.5)).prepare(seed=0)
    whole = Universes(source=universes, symmetries=False).prepare(seed=0)
    mean, std = (torch.stack([data.facts[name] for data in (found, whole)]) for name in ("mean", "std"))
    values = [data.training[0, 2][0][0] * s[0] + m[0] for data, m, s in zip((found, whole), mean, std, strict=True)]
    torch.testing.assert_close(values[0].mean(), values[1].mean(), atol=1e-4, rtol=0)


def test_a_training_notes_what_kind_of_volumes_it_saw(universes):
    data = Universes(source=universes, redshifts=(1.5, 0.0))
    facts = data.prepare(seed=0).facts
    assert facts["redshifts"] == [1.5, 0.0]
    assert facts["box_size_mpc_h"] == 8.0
    assert facts["cells_a_side"] == 8
    means = [next(volumes.read(path)).counts.mean((0, 1, 2))[::-1] for path in data.files()["training"]]
    np.testing.assert_allclose(facts["lowest_mean_count"], np.min(means, axis=0))
    np.testing.assert_allclose(facts["highest_mean_count"], np.max(means, axis=0))


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
@pytest.mark.parametrize("number", [2, 9])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"box_size_mpc_h": 16.0}, "a box of 16 Mpc/h; expected 8, as in "),
        ({"periodic": False}, "periodic = False; expected True, as in "),
        ({"names": ("sigma_8", "Omega_m")}, "parameters sigma_8, Omega_m; expected Omega_m, sigma_8, as in "),
    ],
    ids=["box", "periodic", "names"],
)
def test_universes_of_two_kinds_are_refused_before_the_first_step(
    universes, tmp_path, memory_gigabytes, number, change, said
):
    # The ninth is held out: it must not end the training when it is first scored.
    for index, path in enumerate(Universes(source=universes).files()["training"][:10]):
        volume = next(volumes.read(path))
        volumes.save(replace(volume, **change) if index == number else volume, tmp_path / path.name)
    data = Universes(source=tmp_path, memory_gigabytes=memory_gigabytes)
    with pytest.raises(ValueError, match=rf"0{number}\.h5 has {re.escape(said)}.*00000\.h5: "):
        data.prepare(seed=0)


def test_parameters_in_another_order_can_be_taken_by_their_names(universes, tmp_path):
    for index, path in enumerate(Universes(source=universes).files()["training"][:5]):
        volume = next(volumes.read(path))
        assert volume.unit is not None
        assert volume.physical is not None
        if index == 3:
            turned = {"names": volume.names[::-1], "unit": volume.unit[::-1], "physical": volume.physical[::-1]}
            volume = replace(volume, **turned)
        volumes.save(volume, tmp_path / path.name)
    chosen = Universes(source=tmp_path, parameters=("Omega_m", "sigma_8"), symmetries=False).prepare(seed=0)
    true = [next(volumes.read(path)).parameters["Omega_m"] for path in volumes.files(tmp_path)[:4]]
    np.testing.assert_allclose(chosen.facts["target_mean"][0], np.mean(true))


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
@pytest.mark.parametrize("targets", ["physical", "unit"])
def test_scaled_parameters_in_another_order_are_refused_before_the_first_step(
    universes, tmp_path, memory_gigabytes, targets
):
    # It was noticed at the posterior only, after the training.
    for path in Universes(source=universes).files()["training"][:6]:
        volume = next(volumes.read(path))
        assert volume.unit is not None
        volumes.save(replace(volume, unit=volume.unit[::-1]), tmp_path / path.name)
    data = Universes(source=tmp_path, memory_gigabytes=memory_gigabytes, targets=targets)
    with pytest.raises(ValueError, match=r"unitPar's order is another \(sigma_8 for Omega_m, Omega_m for sigma_8\)"):
        data.prepare(seed=0)


@pytest.mark.parametrize("number", [2, 5])
def test_counts_of_another_unit_are_refused_before_the_first_step(universes, tmp_path, number):
    # The fifth is held out.
    for index, path in enumerate(Universes(source=universes).files()["training"][:6]):
        volume = next(volumes.read(path))
        counts = volume.counts * (1e10 if index == number else 1.0)
        volumes.save(replace(volume, counts=counts), tmp_path / path.name)
    with pytest.raises(ValueError, match=rf"0{number}\.h5 has a mean count of .* at z = 0, .*a factor of 100"):
        Universes(source=tmp_path).prepare(seed=0)


def test_the_file_whose_scaled_parameters_lie_in_another_order_is_named(universes, tmp_path):
    for index, path in enumerate(Universes(source=universes).files()["training"][:6]):
        volume = next(volumes.read(path))
        assert volume.unit is not None
        volumes.save(replace(volume, unit=volume.unit[::-1]) if index == 3 else volume, tmp_path / path.name)
    with pytest.raises(ValueError, match=r"not on a straight line .*\(most of all .*03\.h5\)"):
        Universes(source=tmp_path).prepare(seed=0)


def test_a_parameter_that_never_changes_is_named(universes, tmp_path):
    for path in Universes(source=universes).files()["training"][:5]:
        volume = next(volumes.read(path))
        assert volume.physical is not None
        volumes.save(replace(volume, unit=None, physical=volume.physical * [0, 1] + [0.3, 0]), tmp_path / path.name)
    with pytest.raises(ValueError, match=r"^Omega_m has one value in all training universes; leave it out of param"):
        Universes(source=tmp_path).prepare(seed=0)
    assert Universes(source=tmp_path, parameters=("sigma_8",)).prepare(seed=0).targets == ("sigma_8",)


def test_values_that_are_no_numbers_are_refused_before_the_first_step(universes, tmp_path):
    for number, path in enumerate(Universes(source=universes).files()["training"][:5]):
        volume = next(volumes.read(path))
        physical = np.array([0.3, np.nan]) if number == 2 else volume.physical
        hdf5.save(replace(volume, physical=physical), tmp_path / path.name)
    with pytest.raises(ValueError, match=r"00002\.h5: physical is 0\.3, nan; expected finite numbers"):
        Universes(source=tmp_path).prepare(seed=0)


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
def test_a_copy_of_what_is_trained_on_is_not_held_out(universes, tmp_path, memory_gigabytes):
    paths = Universes(source=universes).files()["training"]
    for number, path in enumerate([*paths[:5], paths[1]]):
        shutil.copy(path, tmp_path / f"{number}.h5")
    data = Universes(source=tmp_path, memory_gigabytes=memory_gigabytes)
    with pytest.raises(ValueError, match=r"5\.h5 has the same counts as .*1\.h5: keep one of each, lest a network be"):
        data.prepare(seed=0)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"held_out": 0}, "held_out=0: a training is measured"),
        ({"workers": -1}, "workers=-1: choose a whole number of threads"),
        ({"memory_gigabytes": -1.0}, "memory_gigabytes=-1.0: choose 0"),
        ({"parameters": "sigma_8"}, "parameters='sigma_8': give a tuple that has each once"),
        ({"parameters": ("sigma_8", "sigma_8")}, "parameters=('sigma_8', 'sigma_8'): give a tuple that has each once"),
        ({"redshifts": ()}, "redshifts=(): give a tuple that has each once"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_be_are_refused_by_name(setting, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        Universes(source="universes", **setting)


@pytest.mark.parametrize("at_most", [None, 5])
def test_so_few_universes_that_they_teach_little_are_said(universes, caplog, at_most):
    Universes(source=universes, at_most=at_most).prepare(seed=0)
    assert caplog.messages[0].startswith(f"training on {at_most or 16} universes, holding out 4: enough to try whether")
