"""What bounds all else on a machine: its products of matrices, its convolutions, its copies and its reads.

They are plain calls of torch and the file system at sizes beyond the caches, and take turns with what is measured.
"""

from pathlib import Path

import torch

from climlab_dl.performance.measure import Work


def gemm(device: torch.device, *, size: int = 2048, dtype: torch.dtype = torch.float32) -> Work:
    """Product of two square matrices, into a third that is there already."""
    left, right = (torch.rand(size, size, device=device, dtype=dtype) for _ in range(2))
    result = torch.empty_like(left)
    return Work(call=lambda: torch.mm(left, right, out=result), flops=2.0 * size**3)


def convolution(device: torch.device, *, channels_last: bool, channels: int = 256, side: int = 96) -> Work:
    """3 x 3 convolution of one map, as many channels out as in: most of the networks' arithmetic is of this kind."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    layer = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    layer = layer.to(device, memory_format=layout)  # pyright: ignore[reportCallIssue]
    given = torch.rand(1, channels, side, side, device=device).contiguous(memory_format=layout)

    @torch.inference_mode()
    def call() -> None:
        layer(given)

    return Work(call=call, flops=2.0 * 9 * channels**2 * side**2)


def copy(device: torch.device, *, megabytes: int = 256) -> Work:
    """Copy of a large tensor into another; the payload counts once, though memory reads it and writes it."""
    given = torch.ones(megabytes * 2**18, device=device)
    taken = torch.empty_like(given)
    return Work(call=lambda: taken.copy_(given), bytes=4.0 * given.numel())


def read(path: Path, *, megabytes: int | None = None) -> Work:
    """Read of a file that the system has in memory, into a buffer that is there already.

    Parameters
    ----------
    path
        The file; it is written first if ``megabytes`` is given.
    megabytes
        How large it is to be.
    """
    if megabytes is not None:
        path.write_bytes(bytes(megabytes * 2**20))
    buffer = memoryview(bytearray(path.stat().st_size))

    def call() -> None:
        with path.open("rb", buffering=0) as file:
            done = 0
            while count := file.readinto(buffer[done:]):
                done += count

    return Work(call=call, bytes=float(len(buffer)))
