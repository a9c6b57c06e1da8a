"""The pages for newcomers: each command and each line of Python runs, in the order of the page."""

from page_blocks import run_page


def test_start(tmp_path):
    names, told = run_page("start.md", tmp_path)
    assert {line.split()[1] for line in told} == {"inspect", "train", "evaluate", "predict", "auto", "compare"}
    assert names["new"]["rank"].min() == 1
    scores = (tmp_path / "scores.csv").read_text().splitlines()
    assert len(scores) == len(names["new"]) + 1
