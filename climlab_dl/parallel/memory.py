"""Memory of a process that does nothing but train, or look at one snapshot after the other."""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # numbers of glibc's malloc.h


def keep_freed() -> bool:
    """Keep freed memory in this process, for the next step or snapshot, instead of giving it back to the system.

    A network's features are hundreds of megabytes that are freed and asked for again at each layer; the system clears
    every page of them anew, which took the small DeepLabv3+ at 768 x 1152 more than half of its time, and a training
    step of CosmoFlow a third. For processes that do nothing else, such as ranks and batch jobs: what they hold once
    they hold to their end.

    Returns
    -------
    bool
        Whether it can: where the C library is not glibc, nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # All threads share one heap: in others, large pieces would still be borrowed from the system one by one.
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_ARENA_MAX, 1))
    done = [mallopt(which, value) == 1 for which, value in settings]
    return all(done)


def give_back(*, above: int = 2**30) -> bool:
    """Give freed memory back to the system now, if more of it is kept than so many bytes.

    What is kept gets into pieces between what stays, such as gradients; begun anew before each step, MLPerf's DeepCAM
    with ``recompute=True`` holds 3.2 GB in place of 3.7, and takes a tenth longer.

    Returns
    -------
    bool
        Whether there was so much; never where the C library is not glibc.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Heap
        if library.mallinfo2().free <= above:
            return False
        return library.malloc_trim(0) == 1
    except (AttributeError, OSError, TypeError):
        return False


class _Heap(ctypes.Structure):
    """What glibc's mallinfo2 tells."""

    _names = ("arena", "pieces", "small", "maps", "mapped", "unused", "small_free", "used", "free", "top")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]
