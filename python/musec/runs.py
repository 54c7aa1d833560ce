"""Logs of the trainer (`musec train`, `sweep`, `paper`) as flat tables.

    rows = musec.runs.read("runs/lr")           # a row for each step of each run below it
    pandas.DataFrame(rows)                      # or polars.DataFrame(rows.columns())
    musec.runs.summaries("runs/lr")             # a row for each run

What the fields mean is in docs/formats.md.  Nested fields are joined by a slash, as in
TensorBoard: `qk/w_norm`, `ms/optim`.  Settings of a run are `config/...`, its outcome `summary/...`.
"""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import Any, Iterable, Iterator, Union

__all__ = ["Table", "read", "summaries"]

Row = dict[str, Any]
Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]


class Table(list[Row]):
    """A list of flat rows.  Rows of one table have the same keys, in the same order; what a row
    does not have is None."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        rows = list(rows)
        keys: dict[str, None] = {}
        for row in rows:
            keys.update(dict.fromkeys(row))
        super().__init__({key: row.get(key) for key in keys} for row in rows)
        self.names = list(keys)

    def columns(self) -> dict[str, list[Any]]:
        """The same table by columns: a dict of lists of equal length."""
        return {name: [row[name] for row in self] for name in self.names}


def _flat(value: Any, prefix: str, row: Row) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            # `groups` holds the matrix groups, which the trainer's event files name directly
            _flat(inner, prefix if key == "groups" else f"{prefix}{key}/", row)
    else:
        row[prefix[:-1]] = json.dumps(value) if isinstance(value, list) else value


def _load(path: Path) -> Row:
    try:
        loaded = json.loads(path.read_text())
    except json.JSONDecodeError as e:
        raise ValueError(f"{path}: not JSON: {e}") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: not a JSON object")
    return loaded


def _below(path: Path) -> Iterator[Path]:
    if (path / "config.json").is_file():
        yield path
    elif path.is_dir():
        for child in sorted(p for p in path.iterdir() if p.is_dir()):
            if ".part." not in child.name:
                yield from _below(child)


def _find(paths: Paths) -> list[Path]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found: dict[Path, None] = {}
    for given in paths:
        text = os.fspath(given)
        matches = sorted(glob.glob(text)) if glob.has_magic(text) else [text]
        runs = [run for match in matches for run in _below(Path(match))]
        if not runs:
            raise FileNotFoundError(
                f"{text}: no run is there; a run is a directory with a config.json, as `musec train "
                "--out DIR` writes it"
            )
        found.update(dict.fromkeys(runs))
    return list(found)


def _about(run: Path) -> Row:
    row: Row = {"run": str(run)}
    _flat(_load(run / "config.json"), "config/", row)
    return row


def read(paths: Paths, config: bool = True) -> Table:
    """A row for each step of each run.

    `paths`: run directories, directories of runs at any depth, or patterns such as "runs/*/".
    Every row has `run`, the directory, and, unless `config` is False, the run's settings.
    The last line of a log that is being written may be incomplete and is then left out.
    """
    rows = []
    for run in _find(paths):
        about = _about(run) if config else {"run": str(run)}
        log = run / "log.jsonl"
        lines = log.read_text().splitlines() if log.is_file() else []
        for number, line in enumerate(lines):
            try:
                fields = json.loads(line)
            except json.JSONDecodeError as e:
                if number == len(lines) - 1:
                    break
                raise ValueError(f"{log}: line {number + 1} is damaged: {e}") from None
            row = {"run": about["run"]}
            _flat(fields, "", row)
            row.update(about)
            rows.append(row)
    return Table(rows)


def summaries(paths: Paths, config: bool = True) -> Table:
    """A row for each run: its outcome and its settings.  A run that is still at work, or was killed,
    has no outcome: its `summary/status` is None."""
    rows = []
    for run in _find(paths):
        row: Row = {"run": str(run), "summary/status": None}
        if (run / "summary.json").is_file():
            _flat(_load(run / "summary.json"), "summary/", row)
        if config:
            row.update(_about(run))
        rows.append(row)
    return Table(rows)
