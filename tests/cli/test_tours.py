"""What the tour does about a tour before it; tests/test_tour.py looks at what it leaves."""

from climlab_dl import notebook
from climlab_dl.cli import tours


def test_networks_that_have_learnt_from_other_data_do_not_pass_for_these(tmp_path, capsys):
    # A second tour, of one's own data, took the networks of the first for finished and showed their scores.
    source = notebook.find("00_tour")
    for data in ("", "mine/*.nc"):
        kept = source.read_text().replace('DATA = \\"\\"', f'DATA = \\"{data}\\"')
        (tmp_path / source.name).write_text(kept)
        assert notebook.parameters(tmp_path / source.name)["DATA"] == data
        (tmp_path / "runs" / "deeplab").mkdir(parents=True)
        tours._put_aside(tmp_path, data)
        assert (tmp_path / "runs" / "deeplab").exists()
        tours._put_aside(tmp_path, "other/*.nc")
        assert not (tmp_path / "runs").exists()
        assert "had networks of other data, which lie in" in capsys.readouterr().out
    assert [(path / "deeplab").exists() for path in sorted(tmp_path.glob("runs-before-*"))] == [True, True]
    tours._put_aside(tmp_path, "third/*.nc")
