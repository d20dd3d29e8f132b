import numpy as np
import pytest

from climlab_dl.cosmology import checks, hdf5, tfrecord, volumes
from climlab_dl.cosmology.volumes import Volume


def made(tmp_path, seed=0, **changes) -> Volume:
    counts = np.random.default_rng(seed).poisson(1.0, (6, 6, 6, 4)).astype(np.int16)
    return Volume(**{"counts": counts, "source": tmp_path / "made", "unit": np.array([0.1, -0.2, 0.3, 0.9]), **changes})


def test_good_files_are_described_and_bad_ones_named(tmp_path):
    good = tfrecord.write([made(tmp_path), made(tmp_path, seed=1)], tmp_path / "good.tfrecord")
    cut = tfrecord.write([made(tmp_path, seed=2)], tmp_path / "cut.tfrecord")
    cut.write_bytes(cut.read_bytes()[:-50])
    report = checks.check(tmp_path)
    assert not report.ok
    assert len(report.problems) == 1
    assert "cut.tfrecord is truncated" in report.problems[0]
    assert report.lines[0] == "counts           (6, 6, 6, 4) int16"
    assert "2 volumes, 1 problem" in str(report)
    assert checks.check(good).ok


def test_overflow_emptiness_and_wrong_scales_are_seen(tmp_path):
    counts = made(tmp_path).counts
    negative, empty = counts.copy(), counts.copy()
    negative[0, 0, 0, 0], empty[..., 2] = -5, 0
    cases = {
        "down to -5": {"counts": negative},
        "a redshift is empty": {"counts": empty},
        "it holds no particle": {"counts": np.zeros_like(counts)},
        "beyond -1 to 1": {"unit": np.full(4, 3.0)},
        "box_size_mpc_h = 0": {"box_size_mpc_h": 0.0},
        "physical is nan": {"physical": np.full(4, np.nan)},
    }
    for word, change in cases.items():
        (fault,) = checks.impossibilities(made(tmp_path, **change))
        assert word in fault
    assert list(checks.impossibilities(made(tmp_path))) == []


@pytest.mark.parametrize(("layout", "ending"), [("zarr", "zarr"), ("hdf5", "h5")])
def test_converted_records_are_the_same_volumes(tmp_path, layout, ending):
    source = tfrecord.write([made(tmp_path), made(tmp_path)], tmp_path / "two.tfrecord")
    written = checks.convert(source, tmp_path / "out", layout=layout)
    assert [path.name for path in written] == [f"two_000.{ending}", f"two_001.{ending}"]
    assert volumes.files(tmp_path / "out") == written
    (found,) = volumes.read(written[1])
    np.testing.assert_array_equal(found.counts, made(tmp_path).counts)
    assert found.counts.dtype == np.int16
    np.testing.assert_array_equal(found.unit, np.array([0.1, -0.2, 0.3, 0.9], dtype=np.float32))
    np.testing.assert_array_equal(found.redshifts, [0, 0.5, 1.5, 3])
    assert not found.periodic
    assert checks.convert(source, tmp_path / "out", layout=layout) == written


def test_what_is_there_is_checked_and_what_is_missing_named(tmp_path):
    good = volumes.save(made(tmp_path), tmp_path / "a.h5")
    report = checks.check([tmp_path / "b.h5", good])
    assert report.volumes == 1
    (problem,) = report.problems
    assert "no volumes at" in problem
    assert "b.h5" in problem
    with pytest.raises(FileNotFoundError, match=r"b\.h5.*c\.h5"):
        checks.check([tmp_path / "b.h5", tmp_path / "c.h5"])


def test_files_of_two_kinds_are_a_problem_naming_both(tmp_path):
    for seed, name, box in ((0, "a", 128.0), (1, "b", 256.0)):
        volumes.save(made(tmp_path, seed, names=tuple("mnop"), box_size_mpc_h=box), tmp_path / f"{name}.h5")
    (problem,) = checks.check(tmp_path).problems
    assert f"{tmp_path / 'b.h5'} has a box of 256 Mpc/h; expected 128, as in {tmp_path / 'a.h5'}" in problem
    assert checks.check(tmp_path / "b.h5").ok


def test_parameters_in_two_orders_are_a_problem(tmp_path):
    for number, unit in enumerate(np.random.default_rng(1).uniform(-1, 1, (6, 4))):
        known = {"names": tuple("mnop"), "unit": unit, "physical": 2 * unit[::-1]}
        volumes.save(made(tmp_path, number, **known), tmp_path / f"{number}.h5")
    (problem,) = checks.check(tmp_path).problems
    assert "unitPar's order is another (p for m, o for n, n for o, m for p)" in problem


def test_counts_of_another_unit_and_a_file_of_another_order_are_named(tmp_path):
    for number, unit in enumerate(np.random.default_rng(1).uniform(-1, 1, (6, 4))):
        known = {"names": tuple("mnop"), "unit": unit, "physical": 2 * (unit[::-1] if number == 4 else unit)}
        counts = made(tmp_path, number).counts * (1e10 if number == 2 else 1.0)
        volumes.save(made(tmp_path, counts=counts, **known), tmp_path / f"{number}.h5")
    means, relation = checks.check(tmp_path).problems
    assert f"{tmp_path / '2.h5'} has a mean count of " in means
    assert "apart by more than a factor of 100" in means
    assert f"most of all {tmp_path / '4.h5'}" in relation


def test_what_is_wrong_in_many_files_is_told_once(tmp_path):
    for number in range(5):
        counts = made(tmp_path, number).counts
        counts[0, 0, 0, 0] = -5 - number if number > 1 else 1
        hdf5.save(made(tmp_path, counts=counts, unit=None), tmp_path / f"universe_{number}.h5")
    (problem,) = checks.check(tmp_path).problems
    assert problem.startswith(f"{tmp_path / 'universe_2.h5'}: counts go down to -7")
    assert problem.endswith("(and 2 more)")


def test_values_that_are_no_numbers_are_one_problem_not_two(tmp_path):
    for number, unit in enumerate(np.random.default_rng(1).uniform(-1, 1, (6, 4))):
        physical = np.full(4, np.nan) if number == 2 else 2 * unit
        known = {"names": tuple("mnop"), "unit": unit, "physical": physical}
        hdf5.save(made(tmp_path, number, **known), tmp_path / f"{number}.h5")
    (problem,) = checks.check(tmp_path).problems
    assert "2.h5: physical is nan, nan, nan, nan; expected finite numbers" in problem


def test_copies_of_one_universe_are_a_problem(tmp_path):
    first = volumes.save(made(tmp_path), tmp_path / "a.h5")
    for name in "bcd":
        volumes.save(made(tmp_path, unit=np.zeros(4)), tmp_path / f"{name}.h5")
    (problem,) = checks.check(tmp_path).problems
    assert problem.startswith(f"{tmp_path / 'b.h5'} has the same counts as {first} (2 copies more): keep one of each")


def test_sources_of_one_name_are_not_mixed(tmp_path):
    one, other = (tfrecord.write([made(tmp_path)], tmp_path / name / "a.tfrecord") for name in ("x", "y"))
    with pytest.raises(ValueError, match="several sources are named a"):
        checks.convert([one, other], tmp_path / "out")
    with pytest.raises(ValueError, match="choose 'zarr' or 'hdf5'"):
        checks.convert(one, tmp_path / "out", layout="npz")  # type: ignore[arg-type]


def test_the_real_crops_pass(shared):
    report = checks.check(str(shared / "cosmology" / "*.tfrecord"))
    assert report.ok
    assert report.volumes == 2


def test_a_truncated_copy_of_a_real_crop_is_named(shared, tmp_path):
    real = sorted((shared / "cosmology").glob("*.tfrecord"))[0]
    (tmp_path / "cut.tfrecord").write_bytes(real.read_bytes()[:2_000_000])
    (tmp_path / "whole.tfrecord").symlink_to(real)
    report = checks.check(tmp_path)
    assert report.volumes == 1
    (problem,) = report.problems
    assert f"{tmp_path / 'cut.tfrecord'} is truncated within record 1" in problem
