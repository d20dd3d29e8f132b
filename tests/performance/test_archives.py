"""Files made on the spot have the shape and the size of the published ones."""

import gzip

from climlab_dl import archive, volumes
from climlab_dl.climate.fields import CAM5
from climlab_dl.performance import archives


def test_fine_snapshots_are_an_archive_with_masks(tmp_path):
    files = archives.snapshots(tmp_path / "fine", (192, 288), "netcdf")
    assert len(files) == 2
    # Float32 fields and a mask of a byte a cell, as they are, and a little to describe them.
    held = 192 * 288 * (4 * len(CAM5) + 1)
    assert held < files[0].stat().st_size < 1.1 * held
    fields = archive.open(files)
    assert dict(fields.sizes) == {"time": 2, "lat": 192, "lon": 288}
    assert set(CAM5) < set(fields)
    assert set(fields["mask"].values.flat) == {0, 1, 2}
    # A quarter of the rows was made, each of which is there four times.
    assert (fields["TMQ"].values[:, 0::4] == fields["TMQ"].values[:, 3::4]).all()
    assert (fields["TMQ"].values[:, 3::4][:, :-1] != fields["TMQ"].values[:, 4::4]).any()


def test_universes_shrink_as_the_real_ones_do(tmp_path):
    plain, packed = (
        archives.universes(tmp_path / str(compressed), 32, compressed=compressed)[0] for compressed in (False, True)
    )
    held = 32**3 * 4 * 2
    assert held < plain.stat().st_size < held + 200
    # Two published files keep 17.3% and 18.0%, have 0.96 to 0.99 particles a voxel, and 55% of the voxels empty.
    assert 0.15 < packed.stat().st_size / plain.stat().st_size < 0.2
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    [volume] = volumes.read(packed)
    assert volume.counts.shape == (32, 32, 32, 4)
    assert 0.9 < volume.counts.mean() < 1.1
