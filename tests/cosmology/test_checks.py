import numpy as np

from climlab_dl.cosmology import checks, tfrecord, volumes
from climlab_dl.cosmology.volumes import Volume


def made(tmp_path, **changes) -> Volume:
    counts = np.random.default_rng(0).poisson(1.0, (6, 6, 6, 4)).astype(np.int16)
    return Volume(**{"counts": counts, "source": tmp_path / "made", "unit": np.array([0.1, -0.2, 0.3, 0.9]), **changes})


def test_good_files_are_described_and_bad_ones_named(tmp_path):
    good = tfrecord.write([made(tmp_path), made(tmp_path)], tmp_path / "good.tfrecord")
    (tmp_path / "cut.tfrecord").write_bytes(good.read_bytes()[:-50])
    report = checks.check(tmp_path)
    assert not report.ok
    assert len(report.problems) == 1
    assert "cut.tfrecord is truncated" in report.problems[0]
    assert sum("good.tfrecord: (6, 6, 6, 4) int16" in line for line in report.lines) == 2
    assert "1 problems" in str(report)
    assert checks.check(good).ok


def test_overflow_emptiness_and_wrong_scales_are_seen(tmp_path):
    counts = made(tmp_path).counts
    negative, empty = counts.copy(), counts.copy()
    negative[0, 0, 0, 0], empty[..., 2] = -5, 0
    cases = {
        "down to -5": {"counts": negative},
        "empty": {"counts": empty},
        "beyond -1 to 1": {"unit": np.full(4, 3.0)},
    }
    for word, change in cases.items():
        (fault,) = checks.faults(made(tmp_path, **change))
        assert word in fault
    assert list(checks.faults(made(tmp_path))) == []


def test_converted_records_are_the_same_volumes(tmp_path):
    source = tfrecord.write([made(tmp_path), made(tmp_path)], tmp_path / "two.tfrecord")
    written = checks.convert(source, tmp_path / "out")
    assert [path.name for path in written] == ["two_000.h5", "two_001.h5"]
    (found,) = volumes.read(written[1])
    np.testing.assert_array_equal(found.counts, made(tmp_path).counts)
    np.testing.assert_array_equal(found.unit, np.array([0.1, -0.2, 0.3, 0.9], dtype=np.float32))
    assert not found.periodic
    assert checks.convert(source, tmp_path / "out") == written


def test_the_real_crops_pass(shared):
    report = checks.check(str(shared / "cosmology" / "*.tfrecord"))
    assert report.ok
    assert len(report.lines) == 2
