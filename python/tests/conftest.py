"""Shared by the tests: the package from this tree, and its library.

The tests run on an installed package, or on this tree with MUSEC_LIBRARY=/path/to/libmusec.so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
try:
    import musec  # noqa: F401
except ImportError:
    sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))


def pytest_addoption(parser) -> None:  # type: ignore[no-untyped-def]
    parser.addoption(
        "--one-by-one",
        action="store_true",
        help="optimizers ask PyTorch of their tensors one by one, as of a PyTorch without the C exchange API",
    )


def pytest_configure(config) -> None:  # type: ignore[no-untyped-def]
    if config.getoption("--one-by-one"):
        from musec.torch import _exchange

        _exchange.enabled = False


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261119)


def pytest_terminal_summary(terminalreporter) -> None:  # type: ignore[no-untyped-def]
    """The last line, as every test of the tree ends."""
    count = {
        k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")
    }
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.write_line(f"skipped: {report.nodeid}: {reason}")
    failed = count["failed"] + count["error"]
    terminalreporter.write_line(
        f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped"
    )
