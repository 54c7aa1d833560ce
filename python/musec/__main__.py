"""python -m musec info: what is installed here, and what it can use."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any

from . import _library as L
from . import __version__, operators, optimizers


def _device(name: str) -> dict[str, Any]:
    try:
        L.Context(name)
        return {"name": name, "opens": True, "error": None}
    except L.Error as e:
        return {"name": name, "opens": False, "error": str(e)}


def _torch() -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        return {"version": None}
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def info() -> dict[str, Any]:
    torch = _torch()  # first: its CUDA decides which library is taken
    return {
        "package": __version__,
        "python": platform.python_version(),
        "library": {"version": L.version(), "path": L.library_path()},
        "devices": [_device("cpu"), _device("cuda")],
        "torch": torch,
        "operators": list(operators()),
        "optimizers": list(optimizers()),
    }


def _lines(found: dict[str, Any]) -> list[str]:
    torch, library = found["torch"], found["library"]
    lines = [
        f"musec      {found['package']} for Python {found['python']}",
        f"library    {library['version']}, {library['path']}",
    ]
    for device in found["devices"]:
        lines.append(f"device     {device['name']}: {device['error'] or 'works'}")
    if torch["version"] is None:
        lines.append("torch      not installed: musec.torch needs PyTorch 2.6 or later")
    else:
        gpus = ", ".join(torch["gpus"]) or "none"
        lines.append(f"torch      {torch['version']}, CUDA {torch['cuda']}, GPUs: {gpus}")
    lines.append("operators  " + ", ".join(found["operators"]))
    lines.append("optimizers " + ", ".join(found["optimizers"]))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m musec", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("info", help="what is installed here, and what it can use")
    command.add_argument("--json", action="store_true", help="as a JSON object")
    arguments = parser.parse_args()
    try:
        found = info()
    except (ImportError, L.Error) as e:
        print(f"python -m musec: {e}", file=sys.stderr)
        return 1
    print(json.dumps(found, indent=1) if arguments.json else "\n".join(_lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
