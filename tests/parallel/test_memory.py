"""Memory that was freed is there for the next snapshot."""

import subprocess
import sys

import pytest

# Pages of 4 kB that the system gives to a process while 160 MB are asked for, filled and freed, for the third time.
SCRIPT = """
import resource, sys
import numpy as np
from climlab_dl.parallel.memory import keep_freed
if sys.argv[1] == "keep" and not keep_freed():
    sys.exit("no glibc")
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(20_000_000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(after - before)
"""


def pages(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=False)
    if "no glibc" in done.stderr:
        pytest.skip("the C library is not glibc")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_freed_memory_is_not_asked_for_again():
    # 160 MB are 39,063 pages; transparent huge pages make them fewer where they are always on.
    assert pages("keep") < 10 < pages("give back")


RESIDENT = """
import sys
from pathlib import Path
import numpy as np
from climlab_dl.parallel.memory import give_back, keep_freed
if not keep_freed():
    sys.exit("no glibc")
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
large, above = np.ones(20_000_000), np.ones(1000)  # something that stays lies above the large piece
before = resident()
del large
kept = resident()
assert not give_back()  # 160 MB are less than a gigabyte
assert resident() > kept - 10**6
assert give_back(above=10**8)
print(before - kept, kept - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_kept_memory_is_given_back_when_asked_for():
    done = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=False)
    if "no glibc" in done.stderr:
        pytest.skip("the C library is not glibc")
    assert done.returncode == 0, done.stderr
    freed, given = map(int, done.stdout.split())
    assert freed < 10e6 < 150e6 < given
