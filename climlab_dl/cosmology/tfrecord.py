"""CosmoFlow's TFRecords, read and written without TensorFlow or protobuf.

A record is ``length (8 bytes), checksum of the length (4), payload, checksum of the payload (4)``, little-endian; the
payload is a protobuf ``Example``: a map from names to lists of bytes, floats or integers.
"""

import gzip
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from climlab_dl.cosmology.cube import Volume
from climlab_dl.files import beside

_GZIP = b"\x1f\x8b"
_LARGEST = 2**31  # a longer record is a sign of a file that is no TFRecord
Feature = bytes | memoryview | NDArray[np.float32] | NDArray[np.int64]


def read(path: Path) -> Iterator[Volume]:
    """Read the volumes of a file of 2018 (``data_raw``, ``label_raw``) or MLPerf (``x``, ``y``), one at a time.

    Raises
    ------
    ValueError
        If the file is truncated, damaged or something else.
    """
    for payload in records(path):
        yield _volume(features(payload, path), path)


def write(volumes: Iterable[Volume], path: str | Path, *, compressed: bool = True) -> Path:
    """Write volumes in MLPerf's layout (``x`` int16, ``y`` scaled parameters), beside and then renamed."""
    path = Path(path)
    with beside(path) as new, gzip.open(new, "wb", compresslevel=6) if compressed else new.open("wb") as file:
        for volume in volumes:
            if volume.unit is None:
                raise ValueError(f"{volume.source} has no scaled parameters, which MLPerf's layout needs")
            x = np.ascontiguousarray(volume.counts, dtype="<i2").tobytes()
            file.write(record(example({"x": x, "y": volume.unit.astype("<f4")})))
    return path


def records(path: Path) -> Iterator[bytes]:
    """Payloads of a TFRecord file, gzip or plain by its first two bytes, with both checksums verified."""
    with path.open("rb") as raw:
        compressed = raw.read(2) == _GZIP
        raw.seek(0)
        file: IO[bytes] = gzip.GzipFile(fileobj=raw) if compressed else raw  # type: ignore[assignment]
        number = 0
        try:
            while header := file.read(12):
                number += 1
                yield _payload(file, header, path, number)
        except EOFError as end:
            raise ValueError(
                f"{path} is truncated within record {number}: its gzip stream has no end; copy it again"
            ) from end
        except (gzip.BadGzipFile, OSError) as fault:
            raise ValueError(f"{path} is damaged within record {number}: {fault}; copy it again") from fault
        if number == 0:
            raise ValueError(f"{path} holds nothing: it is no volume; copy it again, or delete it")


def _payload(file: IO[bytes], header: bytes, path: Path, number: int) -> bytes:
    length, checksum = struct.unpack("<QI", header.ljust(12, b"\0"))
    damaged = length > _LARGEST or _checksum(header[:8]) != checksum
    if number == 1 and damaged:
        raise ValueError(
            f"{path} is none of HDF5, TFRecord and Zarr (it begins with {header[:8]!r}), or it is damaged; copy it "
            "again, or leave it out. A NumPy cube becomes a volume with volumes.save"
        )
    if len(header) < 12:
        raise ValueError(f"{path} is truncated: record {number} has {len(header)} of 12 header bytes; copy it again")
    if damaged:
        raise ValueError(f"{path} is damaged at record {number}: its length does not fit its checksum; copy it again")
    payload = file.read(length)
    tail = file.read(4)
    if len(payload) + len(tail) < length + 4:
        raise ValueError(
            f"{path} is truncated: record {number} has {len(payload) + len(tail)} of {length + 4} bytes; copy it again"
        )
    if _checksum(payload) != struct.unpack("<I", tail)[0]:
        raise ValueError(f"{path} is damaged: record {number} does not fit its checksum; copy it again")
    return payload


def record(payload: bytes) -> bytes:
    """Frame a payload with its length and checksums."""
    length = struct.pack("<Q", len(payload))
    return b"".join([length, struct.pack("<I", _checksum(length)), payload, struct.pack("<I", _checksum(payload))])


def _checksum(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TensorFlow does, lest a checksum of data with checksums in it be weak."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def features(payload: bytes, path: Path) -> dict[str, Feature]:
    """Decode an ``Example`` into its features: bytes, or an array of float32 or int64."""
    found: dict[str, Feature] = {}
    view = memoryview(payload)
    try:
        for _, container in _fields(view):
            for _, entry in _fields(container):
                parts = dict(_fields(entry))
                found[bytes(parts[1]).decode()] = _feature(parts[2])
    except (IndexError, KeyError, UnicodeDecodeError, TypeError, struct.error) as fault:
        raise ValueError(f"{path} holds no tf.train.Example ({fault}); expected CosmoFlow's") from fault
    return found


def example(named: Mapping[str, Feature]) -> bytes:
    """Encode features as an ``Example``."""
    entries = []
    for name, value in named.items():
        if isinstance(value, bytes | memoryview):
            feature = _tagged(1, _tagged(1, bytes(value)))
        elif value.dtype.kind == "f":
            feature = _tagged(2, _tagged(1, value.astype("<f4").tobytes()))
        else:
            packed = b"".join(_varint(int(number) & 2**64 - 1) for number in value)
            feature = _tagged(3, _tagged(1, packed))
        entries.append(_tagged(1, _tagged(1, name.encode()) + _tagged(2, feature)))
    return _tagged(1, b"".join(entries))


def _feature(view: memoryview) -> Feature:
    (kind, values), *_ = _fields(view)
    pieces = [value for _, value in _fields(values)]
    if kind == 1:
        return pieces[0]  # a volume is most of its payload, and needs no copy
    if kind == 2:  # packed in one piece, or one four-byte piece each
        return np.frombuffer(b"".join(pieces), dtype="<f4")
    numbers = chain.from_iterable(_integers(piece) if isinstance(piece, memoryview) else [piece] for piece in pieces)
    return np.array([number - 2**64 if number >= 2**63 else number for number in numbers], dtype=np.int64)


def _fields(view: memoryview) -> Iterator[tuple[int, Any]]:
    """Field numbers and contents of one protobuf message: slices without copies, or integers."""
    at = 0
    while at < len(view):
        key, at = _read_varint(view, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(view, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _read_varint(view, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise TypeError(f"wire type {wire}")
        if at + size > len(view):
            raise IndexError(f"a field of {size} bytes where {len(view) - at} are left")
        yield number, view[at : at + size]
        at += size


def _integers(view: memoryview) -> Iterator[int]:
    at = 0
    while at < len(view):
        value, at = _read_varint(view, at)
        yield value


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise TypeError("an integer of over 64 bits")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _tagged(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _volume(found: Mapping[str, Feature], path: Path) -> Volume:
    if "x" in found and "y" in found:
        counts = _cube(np.frombuffer(found["x"], dtype="<i2"), 4, path)
        return Volume(
            counts=counts,
            source=path,
            names=("Omega_m", "sigma_8", "N_spec", "H_0"),
            unit=np.asarray(found["y"], dtype=np.float64),
            redshifts=np.array([0, 0.5, 1.5, 3]),
            periodic=False,
        )
    if "data_raw" in found and "label_raw" in found:
        counts = _cube(np.frombuffer(found["data_raw"], dtype="<f4"), 1, path)
        label = bytes(found["label_raw"])  # two or three numbers, of four bytes or of eight
        values = np.frombuffer(label, dtype="<f8" if len(label) in (16, 24) else "<f4")
        return Volume(
            counts=counts,
            source=path,
            names=("Omega_m", "sigma_8", "n_s")[: values.size],
            physical=values.astype(np.float64),
            redshifts=np.array([0.0]),
            periodic=False,
        )
    raise ValueError(f"{path} has features {sorted(found)}; expected x and y (MLPerf) or data_raw and label_raw (2018)")


def _cube(values: NDArray[Any], channels: int, path: Path) -> NDArray[Any]:
    side = round((values.size / channels) ** (1 / 3))
    if side**3 * channels != values.size:
        raise ValueError(f"{path} holds {values.size} values, which are not {channels} cubes")
    return values.reshape(side, side, side, channels)
