"""Notebooks run with parameters, say where they are, and become pages that need no network."""

import re

import nbformat
import pytest

from climlab_dl import notebook


def written(folder, *cells, name="story.ipynb"):
    book = nbformat.v4.new_notebook()
    for cell in cells:
        kind, source, *tags = cell
        new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        book.cells.append(new(source, metadata={"tags": tags}))
    nbformat.write(book, folder / name)
    return folder / name


def text_of(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


def test_parameters_replace_the_values_assigned_and_nothing_else(tmp_path, capfd):
    source = "steps = 100  # a comment with steps = 3\nsource = 'sample'\nnames = [\n    'é',\n]\nrest = steps * 2"
    path = written(tmp_path, ("code", source, "parameters"), ("code", "print(steps, source, names, rest)"))
    done = notebook.execute(path, tmp_path / "out", {"steps": 3, "source": tmp_path, "names": ["b"]})
    assert text_of(done.cells[1]) == f"3 {tmp_path} ['b'] 6\n"
    assert "# a comment with steps = 3" in done.cells[0].source
    assert "steps = 100" in nbformat.read(path, as_version=4).cells[0].source


def test_a_parameter_that_the_notebook_does_not_have_is_refused_before_it_runs(tmp_path):
    path = written(tmp_path, ("code", "steps = 1", "parameters"))
    with pytest.raises(ValueError, match=r"no parameter step; .*assigns steps"):
        notebook.execute(path, tmp_path / "out", {"step": 3})
    assert not (tmp_path / "out" / "story.ipynb").exists()


def test_the_parameters_that_a_notebook_was_run_with_are_read_back(tmp_path):
    path = written(tmp_path, ("code", "steps = 1\nname = ''", "parameters"))
    notebook.execute(path, tmp_path / "out", {"name": "a"})
    assert notebook.parameters(tmp_path / "out" / path.name) == {"steps": 1, "name": "a"}


def test_each_cell_is_announced_under_its_heading_with_the_time(tmp_path, capfd):
    path = written(
        tmp_path, ("markdown", "# Look\ntext"), ("code", "# why\na = 1"), ("code", "open('here', 'w').close()")
    )
    notebook.execute(path, tmp_path / "out")
    lines = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r"\[ *\d+\.\d s\] 1/2 Look: a = 1", lines[0])
    assert re.fullmatch(r"\[ *\d+\.\d s\] 2/2 Look: open\('here', 'w'\)\.close\(\)", lines[1])
    # The kernel works in the folder of the results.
    assert (tmp_path / "out" / "here").exists()


def test_a_long_cell_says_that_it_still_runs(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(notebook, "HEARTBEAT", 0.3)
    path = written(tmp_path, ("markdown", "## Train"), ("code", "import time; time.sleep(1.5)"))
    notebook.execute(path, tmp_path / "out")
    assert re.search(r"1/1 Train: import time; time\.sleep\(1\.5\) … \d+ s", capfd.readouterr().out)


def test_a_failing_cell_is_named_and_what_ran_is_kept(tmp_path):
    path = written(
        tmp_path, ("markdown", "# Divide"), ("code", "print('before')"), ("code", "1 / 0"), ("code", "print(2)")
    )
    with pytest.raises(RuntimeError, match=r"(?s)story.ipynb failed at 2/3 Divide: 1 / 0.*ZeroDivisionError") as caught:
        notebook.execute(path, tmp_path / "out")
    assert "1 / 0" in str(caught.value)
    kept = nbformat.read(tmp_path / "out" / "story.ipynb", as_version=4)
    assert text_of(kept.cells[1]) == "before\n"
    assert kept.cells[3].outputs == []


def test_the_users_ipython_profile_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "mine"))
    path = written(tmp_path, ("code", "import IPython.paths; print(IPython.paths.get_ipython_dir())"))
    done = notebook.execute(path, tmp_path / "out")
    assert "climlab-dl-ipython-" in text_of(done.cells[0])
    assert not (tmp_path / "mine" / "profile_default").exists()


def test_a_page_asks_no_network_and_holds_its_images(tmp_path):
    source = "\n".join(
        [
            "from IPython.display import display, Javascript",
            "import matplotlib.pyplot as plt",
            "display(Javascript('let same = 1')); display(Javascript('let same = 1'))",
            "fig = plt.figure(figsize=(1, 1)); fig.gca().plot([0, 1]); display(fig)",
        ]
    )
    path = written(tmp_path, ("markdown", "# Title & more"), ("code", source))
    page = notebook.export(notebook.execute(path, tmp_path / "out"), tmp_path / "page.html")
    text = page.read_text()
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)\s*=\s*[\"']?(?!data:)[^>\s]*", text) == []
    assert "@import" not in text
    assert "data:image/png;base64," in text
    assert text.count('<script type="text/javascript">') == 1
    assert "Title &amp; more" in text


def test_a_notebook_is_found_by_name_or_the_names_are_listed(tmp_path):
    with pytest.raises(FileNotFoundError, match="no notebook '99_absent'"):
        notebook.find("99_absent")
