"""python -m musec.torch._stubs: writes __init__.pyi, the types of the classes that come from the
registry.  A test compares it with the library."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

_TYPES = {
    "threshold": "float | str",
    "adjust_lr_fn": "str | None",
    "nonfinite": "str | None",
    "sharpness": "float | str",
    "ns_coefficients": "tuple[float, float, float] | str",
    "lr": "float | Tensor",
    "process_group": "Any",
}

_HEAD = """# Written by python -m musec.torch._stubs.
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from . import blocks as blocks
from ._groups import groups as groups
from ._optimizer import MusecOptimizer as MusecOptimizer

def from_torch_muon(optimizer: Optimizer, **settings: Any) -> Muon: ...
"""


def _type(name: str, value: Any) -> str:
    if name in _TYPES:
        return _TYPES[name]
    if isinstance(value, tuple):
        return f"tuple[{', '.join('float' for _ in value)}]"
    return {bool: "bool", int: "int", float: "float", str: "str"}[type(value)]


def text() -> str:
    mt: Any = importlib.import_module("musec.torch")

    lines = [_HEAD]
    for name in mt.__all__:
        made: Any = getattr(mt, name)
        if not (inspect.isclass(made) and made is not mt.MusecOptimizer):
            continue
        lines.append(f"class {name}(MusecOptimizer):")
        if getattr(made, "paper", None):
            lines.append("    paper: dict[str, Any]")
        lines += ["    def __init__(", "        self,", "        params: Any,"]
        keyword_only = False
        for one in list(inspect.signature(made.__init__).parameters.values())[2:]:
            if one.kind is one.KEYWORD_ONLY and not keyword_only:
                lines.append("        *,")
                keyword_only = True
            lines.append(f"        {one.name}: {_type(one.name, one.default)} = {one.default!r},")
        lines.append("    ) -> None: ...")
        if hasattr(made, "from_torch_muon"):
            lines += [
                "    @classmethod",
                f"    def from_torch_muon(cls, optimizer: Optimizer, **settings: Any) -> {name}: ...",
            ]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("__init__.pyi").write_text(text())
