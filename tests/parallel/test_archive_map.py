"""A function over a whole archive, in blocks, on engines and on dask-mpi: the same as over the archive in one piece."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import cloudpickle
import pytest
import torch
import xarray as xr

from climlab_dl.climate import archive
from climlab_dl.inference.detect import Detector, detect
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.parallel import archive_map
from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.training import checkpoint
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def wind(fields: xr.Dataset) -> xr.Dataset:
    speed = ((fields.U850**2 + fields.V850**2) ** 0.5).assign_attrs(units="m s-1")
    return speed.to_dataset(name="wind")


def serially(function: Callable, items: Sequence) -> list:
    return [function(item) for item in items]


@pytest.fixture(scope="module")
def whole(sample: Path) -> xr.Dataset:
    return wind(archive.open(sample)).compute()


@pytest.mark.mpi
def test_blocks_on_engines_are_the_archive_in_one_piece(
    engines: Engines, sample: Path, whole: xr.Dataset, tmp_path: Path
) -> None:
    found = archive_map.apply(wind, sample, tmp_path / "wind", over=engines.map, snapshots=14)
    xr.testing.assert_identical(found.wind.compute().drop_attrs(), whole.wind.drop_attrs())
    assert found.wind.chunks is not None
    assert found.wind.attrs["units"] == "m s-1"
    # 60 snapshots in blocks of 14: four whole ones and one of 4.
    assert sorted(path.name for path in (tmp_path / "wind").glob("*.nc")) == [
        "00000000.nc", "00000014.nc", "00000028.nc", "00000042.nc", "00000056.nc",
    ]  # fmt: skip


def test_a_job_that_was_cut_off_does_only_what_is_missing(sample: Path, whole: xr.Dataset, tmp_path: Path) -> None:
    done: list[int] = []

    def cut_off(function: Callable, items: Sequence) -> list:
        return [function(item) for item in items[:2]]

    def noting(function: Callable, items: Sequence) -> list:
        done.extend(items)
        return serially(function, items)

    with pytest.raises(FileNotFoundError):
        archive_map.apply(wind, sample, tmp_path, over=cut_off, snapshots=20)
    found = archive_map.apply(wind, sample, tmp_path, over=noting, snapshots=20)
    assert done == [40]
    xr.testing.assert_identical(found.wind.compute().drop_attrs(), whole.wind.drop_attrs())
    with pytest.raises(ValueError, match="has blocks of"):
        archive_map.apply(wind, sample, tmp_path, over=serially, snapshots=10)


def test_blocks_of_nothing_are_refused(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="snapshots=0 in a block must be at least 1"):
        archive_map.apply(wind, sample, tmp_path, over=serially, snapshots=0)


@pytest.mark.mpi
@pytest.mark.slow
def test_dask_workers_of_a_batch_job_do_the_same(
    mpiexec: Callable[..., str], sample: Path, whole: xr.Dataset, tmp_path: Path
) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "from climlab_dl.parallel import archive_map\n"
        "def wind(fields):\n"
        "    return ((fields.U850**2 + fields.V850**2) ** 0.5).to_dataset(name='wind')\n"
        "with archive_map.dask_workers() as over:\n"
        "    found = archive_map.apply(wind, sys.argv[1], sys.argv[2], over=over, snapshots=15)\n"
        "    print('snapshots:', found.sizes['time'])\n"
    )
    assert "snapshots: 60" in mpiexec(3, script, str(sample), str(tmp_path / "wind"))
    with xr.open_mfdataset(sorted((tmp_path / "wind").glob("*.nc"))) as found:
        xr.testing.assert_allclose(found.wind.compute().drop_attrs(), whole.wind.drop_attrs())


@pytest.mark.mpi
def test_dask_mpi_with_too_few_ranks_is_refused(mpiexec: Callable[..., str], tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "from climlab_dl.parallel import archive_map\n"
        "try:\n"
        "    with archive_map.dask_workers():\n"
        "        pass\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    assert "dask-mpi has 1 rank and needs 3" in mpiexec(1, script)


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint of a network that was never trained."""
    torch.manual_seed(0)
    data = ClimateArchive(source="sample", channels=("TMQ", "PSL"))
    run = Run(data=data, model=DeepLab.small(), loss=WeightedCrossEntropy(), steps=1)
    facts = {"channels": ["TMQ", "PSL"], "classes": ["background", "cyclone", "river"]}
    facts |= {"mean": torch.tensor([20.0, 101000.0]), "std": torch.tensor([10.0, 1000.0])}
    state = {"run": run.to_json(), "model": run.model.build(2, 3).state_dict(), "statistics": facts, "step": 1}
    checkpoint.save(path := tmp_path_factory.mktemp("detector") / "weights.pt", state)
    return path


@pytest.mark.mpi
def test_engines_detect_in_every_file_that_can_be_read(
    engines: Engines, sample: Path, detector: Path, tmp_path: Path
) -> None:
    files = sorted(sample.glob("*.nc"))[-2:]
    made = engines.detect(Detector.load(detector, detector), files, tmp_path / "masks", uncertainty=True)
    assert [path.name for path in made] == [path.name for path in files]
    expected = detect(Detector.load(detector), archive.open(files[0])).mask
    with xr.open_dataset(made[0]) as found:
        assert (found.mask == expected).all()
        assert "mutual_information" in found
    (tmp_path / "bad.nc").write_bytes(files[0].read_bytes()[:500])
    with pytest.raises(RuntimeError, match=r"(?s)1 of 2 files failed:.*bad\.nc"):
        engines.detect(detector, [tmp_path / "bad.nc", files[1]], tmp_path / "others")
    assert [path.name for path in (tmp_path / "others").iterdir()] == [files[1].name]
