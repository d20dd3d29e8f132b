import pickle
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

from climlab_dl.training.checkpoint import load, save
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    state = {"step": 3, "model": {"w": torch.arange(3.0)}, "names": ["a"], "lag": {}, "best": None}
    save(tmp_path / "a.pt", state)
    read = load(tmp_path / "a.pt")
    assert torch.equal(read.pop("model")["w"], state.pop("model")["w"])
    assert read == {"format": 1, **state}
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_file_that_would_run_code_is_not_read(tmp_path):
    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit('ran')",))

    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Evil()))
    torch.save(Evil(), tmp_path / "torch.pt")
    for name in ("evil.pt", "torch.pt"):
        with pytest.raises(ValueError, match="damaged or not a checkpoint"):
            load(tmp_path / name)


def test_a_damaged_checkpoint_is_named_with_the_one_before(tiny, tmp_path):
    list(train(tiny(steps=4, checkpoint_every=2), tmp_path))
    latest = RunFolder(tmp_path).checkpoint(4)
    whole = latest.read_bytes()
    latest.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"step-00000004\.pt is damaged .*Delete it .*step-00000002\.pt"):
        list(train(tiny(steps=6), tmp_path))
    assert RunFolder(tmp_path).status()["state"] == "failed"
    latest.unlink()
    assert [report.step for report in train(tiny(steps=4, report_every=1), tmp_path)] == [3, 4]
    assert latest.exists()


def test_a_bit_that_flipped_on_the_disk_is_noticed(tmp_path):
    path = tmp_path / "step-00000002.pt"
    save(path, {"model": {"w": torch.ones(1000)}})
    content = bytearray(path.read_bytes())
    content[content.index(torch.ones(100).numpy().tobytes()) + 40] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        load(path)


def test_what_a_damaged_checkpoint_advises_is_what_there_is(tmp_path):
    for name in ("best.pt", "step-00000002.pt", "step-00000004.pt"):
        (tmp_path / name).write_bytes(b"half")
    with pytest.raises(ValueError, match=r"Delete it to resume from the one before \(step-00000002\.pt\)"):
        load(tmp_path / "step-00000004.pt")
    with pytest.raises(ValueError, match=r"one before \(there is none: it starts afresh\)"):
        load(tmp_path / "step-00000002.pt")
    with pytest.raises(ValueError, match="Delete it to use the latest of the folder, or give another"):
        load(tmp_path / "best.pt")


def test_a_checkpoint_that_is_not_there_or_of_another_kind_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.pt")
    torch.save({"step": 1}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="not a checkpoint of format 1"):
        load(tmp_path / "other.pt")


def test_a_full_disk_is_reported_and_costs_no_earlier_checkpoint(tmp_path):
    # A file system of one MiB, mounted in a namespace of its own.
    code = f"""
        import torch
        from pathlib import Path
        from climlab_dl.training.checkpoint import load, save
        folder = Path({str(tmp_path)!r})
        save(folder / "small.pt", {{"step": 1}})
        try:
            save(folder / "large.pt", {{"model": {{"w": torch.zeros(2**20)}}}})
        except OSError as error:
            print(error)
        print(sorted(path.name for path in folder.iterdir()), load(folder / "small.pt")["step"])
    """
    script = f"mount -t tmpfs -o size=1m none {tmp_path} && exec {sys.executable} -c '{textwrap.dedent(code)}'"
    script = script.replace(f"{str(tmp_path)!r}", f'"{tmp_path}"')
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    done = subprocess.run([unshare, "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "mount:" in done.stderr:
        pytest.skip(f"cannot mount: {done.stderr}")
    assert "about 4 MiB" in done.stdout, done.stderr
    assert "the disk or quota is full" in done.stdout
    assert "['small.pt'] 1" in done.stdout


def test_a_file_of_another_kind_is_refused_without_advice_to_delete_it(tmp_path):
    (tmp_path / "fields.nc").write_bytes(b"CDF")
    with pytest.raises(ValueError, match="is no checkpoint; give a run's folder") as refused:
        load(tmp_path / "fields.nc")
    assert "elete" not in str(refused.value)
