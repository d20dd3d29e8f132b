from dataclasses import replace

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.cosmology import volumes
from climlab_dl.cosmology.volumes import Volume


@pytest.fixture
def volume(tmp_path):
    counts = np.random.default_rng(0).poisson(1.0, (8, 8, 8, 2)).astype(np.int16)
    return Volume(
        counts=counts,
        source=tmp_path / "made",
        names=("Omega_m", "sigma_8"),
        unit=np.array([-0.5, 0.25]),
        physical=np.array([0.275, 0.88]),
        redshifts=np.array([0.0, 1.5]),
        box_size_mpc_h=128.0,
    )


@pytest.mark.parametrize("name", ["one.h5", "one.zarr"])
def test_what_was_written_is_given_back(volume, tmp_path, name):
    path = volumes.save(volume, tmp_path / "deep" / name, seed=7)
    (found,) = volumes.read(path)
    np.testing.assert_array_equal(found.counts, volume.counts)
    assert found.counts.dtype == np.int16
    assert found.parameters == {"Omega_m": 0.275, "sigma_8": 0.88}
    np.testing.assert_array_equal(found.unit, volume.unit)
    np.testing.assert_array_equal(found.redshifts, volume.redshifts)
    assert (found.box_size_mpc_h, found.periodic, found.attributes["seed"]) == (128.0, True, 7)
    assert [p.name for p in path.parent.iterdir()] == [name]


def test_attributes_are_read_without_the_counts(volume, tmp_path):
    assert volumes.attributes(volumes.save(volume, tmp_path / "one.h5", seed=7))["seed"] == 7


def test_a_truncated_universe_is_named_with_what_to_do(volume, tmp_path):
    path = volumes.save(volume, tmp_path / "universe_00001.h5")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for reads in (lambda: next(volumes.read(path)), lambda: volumes.attributes(path)):
        with pytest.raises(ValueError, match=r"universe_00001\.h5 is truncated or damaged.*simulate again"):
            reads()


def test_a_lost_chunk_is_not_taken_for_empty_space(volume, tmp_path):
    # Zarr reads a chunk that is not there as zeros. An empty cube, in contrast, is written whole.
    path = volumes.save(volume, tmp_path / "one.zarr")
    empty = volumes.save(replace(volume, counts=np.zeros_like(volume.counts)), tmp_path / "empty.zarr")
    assert next(volumes.read(empty)).counts.sum() == 0
    next(p for p in (path / "full").rglob("*") if p.is_file() and p.name != "zarr.json").unlink()
    with pytest.raises(ValueError, match="0 of its 1 chunks"):
        next(volumes.read(path))
    (tmp_path / "other.zarr").mkdir()
    with pytest.raises(ValueError, match=r"other\.zarr holds no volume"):
        next(volumes.read(tmp_path / "other.zarr"))


def test_channels_first_and_x_y_files_are_read_the_same(volume, tmp_path):
    with h5py.File(tmp_path / "lbann.hdf5", "w") as file:
        file["full"], file["unitPar"] = np.moveaxis(volume.counts, -1, 0), volume.unit
    with h5py.File(tmp_path / "crop.h5", "w") as file:
        file["x"], file["y"] = volume.counts, volume.unit
    for name in ("lbann.hdf5", "crop.h5"):
        (found,) = volumes.read(tmp_path / name)
        np.testing.assert_array_equal(found.counts, volume.counts)
        np.testing.assert_array_equal(found.unit, volume.unit)
    assert not found.periodic  # a crop's sides do not touch


def test_the_content_decides_and_not_the_name(volume, tmp_path):
    volumes.save(volume, tmp_path / "one.h5").rename(tmp_path / "one.tfrecord")
    (found,) = volumes.read(tmp_path / "one.tfrecord")
    assert found.counts.shape == volume.counts.shape


@pytest.mark.parametrize("name", ["one.h5", "one.zarr"])
def test_one_number_is_taken_for_one_value(volume, tmp_path, name):
    single = {"names": ("Omega_m",), "unit": -0.5, "physical": 0.275, "redshifts": 0.0}
    (found,) = volumes.read(volumes.save(replace(volume, counts=volume.counts[..., :1], **single), tmp_path / name))
    assert found.parameters == {"Omega_m": 0.275}
    np.testing.assert_array_equal(found.unit, [-0.5], strict=True)
    np.testing.assert_array_equal(found.redshifts, [0.0], strict=True)
    with pytest.raises(ValueError, match=r"redshifts is 'today'; expected numbers"):
        replace(volume, redshifts="today")


def test_what_others_keep_as_attributes_or_datasets_is_read_from_either(volume, tmp_path):
    facts = {"unitPar": volume.unit, "physPar": volume.physical, "redshifts": volume.redshifts, "periodic": False}
    with h5py.File(tmp_path / "attributes.h5", "w") as file:
        file["full"] = volume.counts
        file.attrs.update({**facts, "namePar": list(volume.names), "box_size_mpc_h": [128.0], "seed": 7})
    with h5py.File(tmp_path / "datasets.h5", "w") as file:
        for name, value in (facts | {"full": volume.counts, "box_size_mpc_h": 128.0}).items():
            file[name] = value
        file["namePar"] = "Omega_m, sigma_8"  # in one text
    for name, rest in (("attributes.h5", {"seed": 7}), ("datasets.h5", {})):
        (found,) = volumes.read(tmp_path / name)
        assert found.parameters == volume.parameters
        np.testing.assert_array_equal(found.unit, volume.unit)
        np.testing.assert_array_equal(found.redshifts, volume.redshifts)
        assert (found.box_size_mpc_h, found.periodic, found.attributes) == (128.0, False, rest)
    with h5py.File(tmp_path / "datasets.h5", "a") as file:
        del file["box_size_mpc_h"]
        file["box_size_mpc_h"] = [128.0, 128.0, 64.0]
    with pytest.raises(ValueError, match=r"datasets\.h5 has a box_size_mpc_h of 3 values; expected one"):
        next(volumes.read(tmp_path / "datasets.h5"))


@pytest.mark.parametrize("kind", [bool, complex])
def test_what_are_no_numbers_of_particles_is_no_volume(volume, tmp_path, kind):
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["full"] = volume.counts.astype(kind)
    with pytest.raises(ValueError, match=rf"one\.h5 has counts of type {kind.__name__}.*expected whole or floating"):
        next(volumes.read(tmp_path / "one.h5"))


def test_a_file_without_volumes_says_what_it_has(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["density"] = [1.0]
    with pytest.raises(ValueError, match=r"'full' or 'x'.*density"):
        list(volumes.read(tmp_path / "other.h5"))
    with h5py.File(tmp_path / "flat.h5", "w") as file:
        file["full"] = np.zeros((4, 5, 6))
    with pytest.raises(ValueError, match=r"\(4, 5, 6\).*channels"):
        list(volumes.read(tmp_path / "flat.h5"))


def test_a_cube_of_another_name_is_told_how_to_be_renamed(volume, tmp_path):
    path = tmp_path / "own.h5"
    with h5py.File(path, "w") as file:
        file["density"], file["x"] = volume.counts, np.arange(8.0)  # x alone is a coordinate
    with pytest.raises(ValueError, match=r"found: density, x\); rename it.*move\('density', 'full'\)"):
        next(volumes.read(path))
    with h5py.File(path, "a") as file:
        file.move("density", "full")
    np.testing.assert_array_equal(next(volumes.read(path)).counts, volume.counts)


def test_a_cube_within_groups_is_named_by_its_path(volume, tmp_path):
    path = tmp_path / "own.h5"
    with h5py.File(path, "w") as file:
        file["snap/density"] = volume.counts
    with pytest.raises(ValueError, match=r"found: snap/density\); rename it.*move\('snap/density', 'full'\)"):
        next(volumes.read(path))
    with h5py.File(path, "a") as file:
        file.move("snap/density", "full")
    np.testing.assert_array_equal(next(volumes.read(path)).counts, volume.counts)


def test_a_contrast_of_another_name_is_told_to_be_one_at_once(tmp_path):
    path = tmp_path / "own.h5"
    contrast = np.zeros((4, 4, 4))
    contrast[3, 0, 0] = -0.75
    with h5py.File(path, "w") as file:
        file["density"] = contrast
    with pytest.raises(
        ValueError, match=r"density goes down to -0\.75, so that it is a contrast and no counts"
    ) as said:
        next(volumes.read(path))
    assert "move(" not in str(said.value)


def test_a_volume_shows_what_is_known_of_it_and_not_its_counts(volume):
    assert repr(volume) == (
        f"Volume(source {volume.source}; counts (8, 8, 8, 2) int16; redshifts 0, 1.5; box 128 Mpc/h; "
        "parameters Omega_m=0.275, sigma_8=0.88)"
    )
    assert "<td style='text-align:left'>Omega_m=0.275, sigma_8=0.88</td>" in volume._repr_html_()
    bare = replace(volume, names=(), physical=None, redshifts=None, box_size_mpc_h=None)
    assert repr(bare).endswith("redshifts not told; box not told; scaled parameters -0.5, 0.25)")
    assert repr(replace(bare, unit=None)).endswith("parameters not told)")


@pytest.mark.parametrize("name", ["one.h5", "one.zarr"])
def test_a_cube_without_redshifts_is_kept_as_one_channel(volume, tmp_path, name):
    cube = replace(volume, counts=volume.counts[..., 0], redshifts=None)
    (found,) = volumes.read(volumes.save(cube, tmp_path / name))
    np.testing.assert_array_equal(found.counts, volume.counts[..., :1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"counts": np.zeros((8, 8))}, r"\(8, 8\); expected a cube \(x, y, z, redshifts\)"),
        ({"counts": np.zeros((2, 8, 8, 8))}, r"\(2, 8, 8, 8\); expected a cube \(x, y, z, redshifts\)"),
        ({"redshifts": np.zeros(3)}, "redshifts has 3 values; expected 2, for the channels"),
        ({"physical": np.zeros(1)}, "physical has 1 value; expected 2, for Omega_m, sigma_8"),
        ({"unit": np.zeros(3)}, "unit has 3 values; expected 2, for Omega_m, sigma_8"),
        ({"unit": np.array([0.1, np.nan])}, "unit is 0.1, nan; expected finite numbers"),
        ({"redshifts": np.array([0.0, np.inf])}, "redshifts is 0, inf; expected finite numbers"),
        ({"names": ("a", "a")}, "names has a twice; expected a name of its own"),
        ({"box_size_mpc_h": -1.0}, "box_size_mpc_h = -1; expected the cube's side in Mpc/h, above 0"),
        ({"box_size_mpc_h": 0.0}, "box_size_mpc_h = 0; expected"),
        ({"box_size_mpc_h": np.nan}, "box_size_mpc_h = nan; expected"),
        ({"counts": np.full((8, 8, 8, 2), -5)}, "made: counts go down to -5; an overflow .* never negative"),
        ({"counts": np.full((8, 8, 8, 2), np.nan)}, "made: densities are not all finite. Expected counts"),
    ],
)
def test_a_volume_that_cannot_be_or_could_not_be_read_again_is_not_written(volume, tmp_path, change, said):
    with pytest.raises(ValueError, match=said):
        volumes.save(replace(volume, **change), tmp_path / "one.h5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["one.npy", "one", "one.tfrecord"])
def test_a_volume_is_not_written_where_a_folder_would_not_show_it(volume, tmp_path, name):
    with pytest.raises(ValueError, match=r"ends in '.*expected \.h5, \.hdf5, \.hdf, \.zarr"):
        volumes.save(volume, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_prior_is_taken_as_lists_and_its_low_end_comes_first():
    np.testing.assert_allclose(volumes.to_unit([0.3, 1.0], [0.1, 0.5], [0.5, 1.0]), [0, 1], atol=1e-12)
    np.testing.assert_allclose(volumes.to_physical([0, 1], [0.1, 0.5], [0.5, 1.0]), [0.3, 1.0])
    for high in ([0.5, 0.5], [0.5, 0.1], [0.5, np.nan]):
        for there in (volumes.to_unit, volumes.to_physical):
            with pytest.raises(ValueError, match=r"a prior from \[0\.1, 0\.5\] to .*expected the low end of each"):
                there([0.3, 0.8], [0.1, 0.5], high)


def test_folders_globs_and_lists_are_found_in_order(volume, tmp_path):
    paths = [volumes.save(volume, tmp_path / f"universe_{i:05d}.h5") for i in (2, 0, 1)]
    expected = sorted(paths)
    assert volumes.files(tmp_path) == expected
    assert volumes.files(str(tmp_path / "universe_*.h5")) == expected
    assert volumes.files(paths) == paths
    assert len(list(volumes.open(tmp_path))) == 3
    (tmp_path / "empty").mkdir()
    for name, why in (("nowhere", "it does not exist; "), ("n*.h5", "nothing matches it; "), ("empty", "")):
        with pytest.raises(FileNotFoundError) as fault:
            volumes.files(tmp_path / name)
        assert str(fault.value).startswith(f"no volumes at {tmp_path / name}: {why}expected HDF5, TFRecord or Zarr")


def test_subvolumes_tile_the_cube_and_lose_their_periodicity(volume):
    pieces = volume.subvolumes(4)
    assert len(pieces) == 8
    assert sum(int(p.counts.sum()) for p in pieces) == int(volume.counts.sum())
    assert {(p.box_size_mpc_h, p.periodic) for p in pieces} == {(64.0, False)}
    np.testing.assert_array_equal(pieces[1].counts, volume.counts[:4, :4, 4:])
    assert volume.subvolumes(8) == [volume]
    with pytest.raises(ValueError, match="does not divide"):
        volume.subvolumes(3)


def test_the_48_symmetries_are_distinct_and_the_first_changes_nothing(volume):
    turned = {volumes.symmetry(volume.counts, i).tobytes() for i in range(48)}
    assert len(turned) == 48
    np.testing.assert_array_equal(volumes.symmetry(volume.counts, 0), volume.counts)
    with pytest.raises(ValueError, match="48"):
        volumes.symmetry(volume.counts, 48)


@given(st.integers(0, 47), st.integers(0, 47))
def test_symmetries_form_a_group(one, other):
    # Two in a row are again one of the 48: a cube numbered throughout recognises which.
    cube = np.arange(27).reshape(3, 3, 3)
    both = volumes.symmetry(volumes.symmetry(cube, one), other)
    assert any(np.array_equal(both, volumes.symmetry(cube, i)) for i in range(48))


@given(st.integers(0, 47))
def test_redshifts_are_turned_together(index):
    cube = np.random.default_rng(0).integers(0, 9, (4, 4, 4))
    turned = volumes.symmetry(np.stack([cube, 10 * cube], axis=-1), index)
    np.testing.assert_array_equal(turned[..., 1], 10 * turned[..., 0])


def test_the_prior_is_read_off_the_files():
    unit = np.array([[-0.5, 0.1], [0.5, 0.3], [0.9, -1.0]])
    low, high = np.array([0.25, 60.0]), np.array([0.35, 80.0])
    found = volumes.scaling(unit, (low + high) / 2 + unit * (high - low) / 2)
    np.testing.assert_allclose(found, (low, high), rtol=1e-12)
    with pytest.raises(ValueError, match="straight line"):
        volumes.scaling(unit, unit**2)
    with pytest.raises(ValueError, match="two"):
        volumes.scaling(unit[:1], unit[:1])
    same = unit * [1.0, 0.0]
    with pytest.raises(ValueError, match="H_0 has one value in all universes"):
        volumes.scaling(same, same, ("Omega_m", "H_0"))


def test_a_volume_without_physical_parameters_says_so(volume, tmp_path):
    bare = Volume(counts=volume.counts, source=tmp_path / "bare.h5", unit=volume.unit)
    with pytest.raises(ValueError, match=r"bare\.h5"):
        _ = bare.parameters
