import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.cosmology import tfrecord, volumes
from climlab_dl.cosmology.volumes import Volume


def made(tmp_path, side=6):
    counts = np.random.default_rng(1).poisson(1.0, (side, side, side, 4)).astype(np.int16)
    return Volume(counts=counts, source=tmp_path / "made", unit=np.array([-0.5, 0.25, 0.125, 0.75]))


@pytest.mark.parametrize("compressed", [True, False])
def test_mlperf_records_come_back_as_written(tmp_path, compressed):
    volume = made(tmp_path)
    path = tfrecord.write([volume, volume], tmp_path / "two.tfrecord", compressed=compressed)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == compressed
    found = list(volumes.read(path))
    assert len(found) == 2
    np.testing.assert_array_equal(found[1].counts, volume.counts)
    np.testing.assert_array_equal(found[1].unit, volume.unit)
    assert found[1].names == ("Omega_m", "sigma_8", "N_spec", "H_0")
    np.testing.assert_array_equal(found[1].redshifts, [0, 0.5, 1.5, 3])


@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_records_of_2018_come_back_as_written(tmp_path, kind):
    density = np.random.default_rng(2).random((5, 5, 5)).astype("<f4")
    label = np.array([0.31, 0.82, 0.95], dtype=kind)
    payload = tfrecord.example({"data_raw": density.tobytes(), "label_raw": label.tobytes()})
    path = tmp_path / "old.tfrecord"
    path.write_bytes(tfrecord.record(payload))
    (found,) = volumes.read(path)
    np.testing.assert_array_equal(found.counts[..., 0], density)
    assert found.parameters == pytest.approx({"Omega_m": 0.31, "sigma_8": 0.82, "n_s": 0.95}, rel=1e-6)


def test_the_frame_is_tensorflows():
    # CRC-32C of "123456789" is E3069283 (RFC 3720's check value). TensorFlow rotates right by 15 and adds A282EAD8:
    # ((E3069283 >> 15) | (E3069283 << 17)) + A282EAD8 = C78AB0E5 modulo 2^32.
    framed = tfrecord.record(b"123456789")
    assert framed[:8] == struct.pack("<Q", 9)
    rotated = ((0xE3069283 >> 15) | (0xE3069283 << 17)) & 0xFFFFFFFF
    assert struct.unpack("<I", framed[-4:])[0] == (rotated + 0xA282EAD8) & 0xFFFFFFFF


@given(
    st.binary(max_size=40),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
)
def test_examples_of_all_kinds_come_back(data, floats, integers):
    features = {"b": data, "f": np.array(floats, dtype=np.float32), "i": np.array(integers, dtype=np.int64)}
    found = tfrecord.features(tfrecord.example(features), volumes.Path("memory"))
    assert found["b"] == data
    np.testing.assert_array_equal(found["f"], features["f"])
    np.testing.assert_array_equal(found["i"], features["i"])


@given(st.data())
def test_any_flipped_bit_and_any_cut_is_noticed(data):
    # Of a plain record, by the two checksums; the file is named.
    whole = tfrecord.record(tfrecord.example({"x": bytes(range(128)), "y": np.zeros(4, dtype=np.float32)}))
    damaged = bytearray(whole)
    if data.draw(st.booleans(), "cut"):
        damaged = damaged[: data.draw(st.integers(0, len(whole) - 1), "at")]
    else:
        damaged[data.draw(st.integers(0, len(whole) - 1), "byte")] ^= 1 << data.draw(st.integers(0, 7), "bit")
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".tfrecord") as file:
        file.write(damaged)
        file.flush()
        path = volumes.Path(file.name)
        with pytest.raises(ValueError, match=path.name):
            list(tfrecord.records(path))


def test_truncated_gzip_and_foreign_files_are_named(tmp_path):
    path = tfrecord.write([made(tmp_path)], tmp_path / "one.tfrecord")
    (tmp_path / "cut.tfrecord").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cut\.tfrecord is truncated"):
        list(volumes.read(tmp_path / "cut.tfrecord"))
    (tmp_path / "foreign.tfrecord").write_bytes(b"a text that is long enough to have a header")
    with pytest.raises(ValueError, match=r"foreign\.tfrecord is none of HDF5, TFRecord and Zarr .*b'a text t'"):
        list(volumes.read(tmp_path / "foreign.tfrecord"))
    (tmp_path / "short.h5").write_bytes(b"my notes\n")  # shorter than the header of a record
    with pytest.raises(ValueError, match=r"short\.h5 is none of HDF5, TFRecord .*b'my notes'.* or leave it out"):
        list(volumes.read(tmp_path / "short.h5"))
    (tmp_path / "empty.h5").touch()
    with pytest.raises(ValueError, match=r"empty\.h5 holds nothing: it is no volume; copy it again, or delete it"):
        list(volumes.read(tmp_path / "empty.h5"))
    np.save(tmp_path / "cube.npy", np.ones((4, 4, 4)))
    with pytest.raises(ValueError, match=r"cube\.npy is none of .*volumes\.save"):
        list(volumes.read(tmp_path / "cube.npy"))
    (tmp_path / "noise.gz").write_bytes(b"\x1f\x8b" + bytes(100))
    with pytest.raises(ValueError, match=r"noise\.gz is damaged"):
        list(volumes.read(tmp_path / "noise.gz"))
    (tmp_path / "inside.gz").write_bytes(
        gzip.compress(tfrecord.record(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
    )
    with pytest.raises(ValueError, match=r"inside\.gz holds no"):
        list(volumes.read(tmp_path / "inside.gz"))
    (tmp_path / "other.tfrecord").write_bytes(tfrecord.record(tfrecord.example({"image": b"1234"})))
    with pytest.raises(ValueError, match=r"features \['image'\]"):
        list(volumes.read(tmp_path / "other.tfrecord"))


def test_a_volume_without_scaled_parameters_is_not_half_written(tmp_path):
    bare = Volume(counts=np.zeros((2, 2, 2, 4), np.int16), source=tmp_path / "bare")
    with pytest.raises(ValueError, match="scaled parameters"):
        tfrecord.write([bare], tmp_path / "bare.tfrecord")
    assert list(tmp_path.iterdir()) == []


# The two real crops of the MLPerf set; their zeros per redshift (%) and maxima were found with another reader.
CROPS = {
    "006": ((-0.5267, -0.1341, 0.4719, -0.2802), (68, 63, 52, 39), (1019, 724, 371, 149)),
    "018": ((-0.3603, 0.3274, -0.8659, 0.1243), (63, 57, 45, 33), (1016, 1028, 376, 156)),
}


@pytest.mark.parametrize("number", CROPS)
def test_real_crops_are_read(shared, number):
    unit, zeros, maxima = CROPS[number]
    (path,) = (shared / "cosmology").glob(f"*_{number}.tfrecord")
    (found,) = volumes.read(path)
    assert found.counts.shape == (128, 128, 128, 4)
    assert found.unit is not None
    np.testing.assert_allclose(found.unit, unit, atol=1e-4)
    np.testing.assert_array_equal((100 * (found.counts == 0).mean((0, 1, 2))).round(), zeros)
    np.testing.assert_array_equal(found.counts.max((0, 1, 2)), maxima)
    assert found.counts.min() == 0
