import subprocess
import sys

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate.fields import CAM5
from climlab_dl.training.statistics import Statistics, merged

NAMES = ("TMQ", "PSL")


def archive(seed: int, snapshots: int = 7) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    fields = random.normal((20.0, 101_000.0), (8.0, 900.0), (snapshots, 6, 5, 2)).astype(np.float32)
    return np.moveaxis(fields, -1, 1), random.integers(3, size=(snapshots, 6, 5))


def of(fields: np.ndarray, masks: np.ndarray) -> Statistics:
    return merged(Statistics.of(f, NAMES, m, 3) for f, m in zip(fields, masks, strict=True))


def close(ours: Statistics, other: Statistics) -> None:
    for name in ("count", "mean", "std", "minimum", "maximum", "class_counts"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=1e-12)


def test_a_stream_of_snapshots_has_the_statistics_of_the_whole():
    fields, masks = archive(0)
    found = of(fields, masks)
    whole = fields.astype(np.float64)
    np.testing.assert_allclose(found.mean, whole.mean(axis=(0, 2, 3)), rtol=1e-13)
    # A sum of squares would lose the spread of pressure, 900 beside 101,000, to rounding in float32.
    np.testing.assert_allclose(found.std, whole.std(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_array_equal(found.minimum, whole.min(axis=(0, 2, 3)))
    np.testing.assert_array_equal(found.class_counts, np.bincount(masks.ravel()))


@given(cut=st.integers(0, 7), seed=st.integers(0, 5))
def test_it_does_not_matter_where_the_archive_is_cut(cut, seed):
    fields, masks = archive(seed)
    parts = [of(fields[part], masks[part]) if len(fields[part]) else Statistics.empty(NAMES, 3)
             for part in (slice(0, cut), slice(cut, None))]  # fmt: skip
    close(parts[0].merge(parts[1]), of(fields, masks))
    close(parts[1].merge(parts[0]), of(fields, masks))


def test_a_constant_channel_can_be_divided_by_its_spread():
    assert Statistics.of(np.full((2, 3, 4), 7.0), NAMES).std.tolist() == [1.0, 1.0]


def test_the_scale_fits_the_samples_that_it_normalises():
    values = np.random.default_rng(0).normal([3, -40], [2, 0.5], (6, 4, 5, 2)).transpose(3, 0, 1, 2)
    mean, std = Statistics.of(values, ("TMQ", "PSL")).scale(3)
    assert mean.shape == std.shape == (2, 1, 1, 1)
    normal = (values - mean) / std
    np.testing.assert_allclose(normal.mean(axis=(1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(normal.std(axis=(1, 2, 3)), 1, atol=1e-5)


def test_different_channels_do_not_merge():
    with pytest.raises(ValueError, match="TMQ"):
        Statistics.empty(("TMQ",)).merge(Statistics.empty(("PSL",)))


def test_facts_of_a_checkpoint_give_the_statistics_back():
    ours = of(*archive(1))
    close(Statistics.from_facts(ours.facts()), ours)


def test_deepcam_statistics_survive_a_round_trip(tmp_path):
    ours = of(*archive(2))
    ours.save_deepcam(tmp_path / "stats.h5")
    read = Statistics.load_deepcam(tmp_path / "stats.h5", NAMES, NAMES)
    np.testing.assert_allclose(read.mean, ours.mean, rtol=1e-6)
    np.testing.assert_allclose(read.maximum, ours.maximum, rtol=1e-6)
    np.testing.assert_allclose(read.std[0], ours.std[0], rtol=1e-5)
    # Pressure: float32 keeps its mean square of 1e10 to 600, its variance of 8.1e5 to 0.1 %.
    np.testing.assert_allclose(read.std[1], ours.std[1], rtol=2e-3)


def test_the_published_deepcam_statistics_are_read_by_channel_name(shared):
    # Means of TMQ, PSL and T500 in the All-Hist file of the MLPerf HPC reference.
    path = shared / "climate" / "deepcam_stats.h5"
    found = Statistics.load_deepcam(path, ("PSL", "TMQ", "T500"), CAM5)
    np.testing.assert_allclose(found.mean, [100_782, 18.66, 252.3], rtol=1e-3)
    assert found.minimum[1] == pytest.approx(0.026, abs=1e-3)


def test_a_file_of_something_else_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_group("climate")["mean"] = np.zeros(2)
    with pytest.raises(ValueError, match="climate/count"):
        Statistics.load_deepcam(tmp_path / "other.h5", NAMES, NAMES)


def test_statistics_that_no_file_may_hold_are_refused_in_one_message(tmp_path):
    code = """if True:
        import resource, numpy as np
        from climlab_dl.training.statistics import Statistics
        found = Statistics.of(np.ones((2, 4, 4), np.float32), ("TMQ", "PSL"))
        for limit in (0, 1000, 2000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                found.save_deepcam("stats.h5")
            except OSError as error:
                print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    said = "stats.h5 cannot be written: no file may grow larger here (ulimit -f)"
    assert [line.startswith(said) for line in done.stdout.splitlines()] == [True] * 3
    assert list(tmp_path.iterdir()) == []
