"""`coterie run --log`: where logs go, and what is refused before any work."""

import json

import pytest
from cli_world import coterie
from test_rare_outcome import QUICK, write_rare


def test_logs_lie_in_the_folder_or_where_they_are_put(tmp_path):
    data, out = write_rare(tmp_path), tmp_path / "out"
    files = ("--data", data, "--columns", tmp_path / "ill.toml", *QUICK, "--out", out)
    done = coterie(
        "run", *files, "--log", "jsonl", "--log", f"tensorboard:{tmp_path / 'events'}", "--log-oracles"
    )
    assert done.status == 0, done.stderr
    assert done.stdout.endswith(f"log: jsonl {out / 'log.jsonl'}\nlog: tensorboard {tmp_path / 'events'}\n")
    points = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()[1:-1]]
    result = json.loads((out / "result.json").read_text())
    assert points[-1]["oracle/accuracy"] == pytest.approx(result["metric"]["joint"])
    assert points[-1]["messages"] == result["messages"]
    assert len(list((tmp_path / "events").iterdir())) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--log", "wandb"), "log='wandb': unknown. Choose one of: jsonl, mlflow, tensorboard."),
        (("--log-oracles",), "no log is asked for. Add --log."),
    ],
)
def test_what_cannot_be_logged_is_one_line(tmp_path, options, words):
    done = coterie("run", *options, "--out", tmp_path / "out")
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
