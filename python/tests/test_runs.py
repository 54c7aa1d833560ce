"""Logs of the trainer as flat tables."""

from __future__ import annotations

import json

import pytest

from musec import runs


def make(path, steps, done=True, **config):
    path.mkdir(parents=True)
    (path / "config.json").write_text(
        json.dumps({"optimizer": "muon", "weight_decay": {"qk": 1.0, "mlp": 0.5}, **config})
    )
    lines = [{"step": t, "loss": 3.0 - t, "lr": 0.1} for t in range(1, steps + 1)]
    lines[0].update(val_loss=2.5, groups={"qk": {"w_norm": 4.0}}, ms={"optim": 1.5})
    (path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if done:
        (path / "summary.json").write_text(
            json.dumps({"status": "done", "reason": None, "data": {"train": [{"name": "x"}]}})
        )


def test_rows_are_flat(tmp_path):
    make(tmp_path / "lr" / "a", 3, seed=0)
    make(tmp_path / "lr" / "b", 2, done=False, seed=1)
    table = runs.read(tmp_path / "lr")
    assert len(table) == 5 and all(list(row) == table.names for row in table)
    first = table[0]
    assert first["run"].endswith("a") and first["loss"] == 2.0 and first["qk/w_norm"] == 4.0
    assert first["ms/optim"] == 1.5 and first["config/weight_decay/mlp"] == 0.5
    assert table[1]["val_loss"] is None
    columns = table.columns()
    assert columns["step"] == [1, 2, 3, 1, 2] and columns["config/seed"] == [0, 0, 0, 1, 1]
    assert not any(name.startswith("config/") for name in runs.read(tmp_path, config=False).names)
    assert all(not isinstance(v, (list, dict)) for row in table for v in row.values())


def test_summaries(tmp_path):
    make(tmp_path / "a", 3)
    make(tmp_path / "b", 2, done=False)
    table = runs.summaries([tmp_path / "a", tmp_path / "b"])
    assert [row["summary/status"] for row in table] == ["done", None]
    assert table[0]["summary/data/train"] == '[{"name": "x"}]'
    assert len(runs.summaries(str(tmp_path / "*"))) == 2


def test_logs_that_are_being_written_or_damaged(tmp_path):
    make(tmp_path / "a", 3)
    log = tmp_path / "a" / "log.jsonl"
    log.write_text(log.read_text() + '{"step": 4, "lo')
    assert len(runs.read(tmp_path / "a")) == 3
    log.write_text("{" + log.read_text())
    with pytest.raises(ValueError, match="line 1"):
        runs.read(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="no run is there"):
        runs.read(tmp_path / "nothing")
