"""The optimizers of the library and their options, asked from the library itself.

A new row of the registry appears here, and as a class of musec.torch, by itself.  Options have
PyTorch's names and meanings where it has any (`translate`); the others have the library's own, with
underscores.  Values go to the library as text and are checked there.
"""

from __future__ import annotations

import ctypes as c
import functools
import math
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional

from . import _library as L

ROLES = {"matrix": 0, "qk": 1, "vo": 2, "mlp": 3, "embed": 4, "head": 5, "vector": 6, "adamw": 6}
MATRIX_ROLES = ("matrix", "qk", "vo", "mlp")


class OptimConfig(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("ns_iters", c.c_int32),
        ("name", c.c_char_p),
        ("base", c.c_char_p),
        ("lr", c.c_double),
        ("beta", c.c_double),
        ("threshold", c.c_double),
        ("threshold_rule", c.c_int32),
        ("update_scale", c.c_int32),
        ("clip", c.c_int32),
        ("ns_mode", c.c_int32),
        ("ns_coeffs", c.c_int32),
        ("decay_form", c.c_int32),
        ("nesterov", c.c_int32),
        ("shape_rule", c.c_int32),
        ("momentum_form", c.c_int32),
        ("momentum_init", c.c_int32),
        ("nonfinite", c.c_int32),
        ("literal", c.c_int32),
        ("ns_tol", c.c_double),
        ("weight_decay", c.c_double * 4),
        ("beta1", c.c_double),
        ("beta2", c.c_double),
        ("beta3", c.c_double),
        ("eps", c.c_double),
        ("alpha", c.c_double),
        ("alpha_warmup", c.c_int64),
        ("beta3_warmup", c.c_int64),
        ("aux_lr", c.c_double),
        ("aux_beta1", c.c_double),
        ("aux_beta2", c.c_double),
        ("aux_eps", c.c_double),
        ("aux_weight_decay", c.c_double),
        ("qk_tau", c.c_double),
        ("qk_alpha", c.c_double),
        ("avg_steps", c.c_int64),
        ("avg_epochs", c.c_int64),
        ("seed", c.c_uint64),
        ("report_every", c.c_int64),
        ("workspace", c.c_uint64),
        ("operands", c.c_int32),
        ("momentum_dtype", c.c_int32),
        ("sharpness", c.c_double),
        ("function", c.c_int32),
        ("second_moment", c.c_int32),
        ("second_beta", c.c_double),
        ("second_eps", c.c_double),
        ("ns_eps", c.c_double),
        ("threshold_warmup", c.c_int64),
        ("ns_eps_form", c.c_int32),
        ("reserved", c.c_int32),
        ("precondition_every", c.c_int64),
        ("max_precond_dim", c.c_int64),
        ("precondition_beta", c.c_double),
        ("fraction", c.c_double),
        ("precondition_eps", c.c_double),
        ("graft", c.c_int32),
        ("reserved_2", c.c_int32),
    ]


L.declare(
    {
        "musec_optim_config_init_why": (
            c.c_int,
            [c.POINTER(OptimConfig), c.c_size_t, c.c_char_p, c.c_char_p, c.c_size_t],
        ),
        "musec_optim_config_set_why": (
            c.c_int,
            [c.POINTER(OptimConfig), c.c_char_p, c.c_char_p, c.c_char_p, c.c_size_t],
        ),
        "musec_optim_reads": (c.c_int, [c.POINTER(OptimConfig), c.c_char_p]),
    }
)


def new_config(optimizer: str) -> OptimConfig:
    config = OptimConfig()
    why = c.create_string_buffer(1024)
    L.check_why(
        L.lib().musec_optim_config_init_why(
            c.byref(config), c.sizeof(config), optimizer.encode(), why, len(why)
        ),
        why,
    )
    return config


def set_option(config: OptimConfig, key: str, value: str) -> None:
    why = c.create_string_buffer(1024)
    L.check_why(
        L.lib().musec_optim_config_set_why(
            c.byref(config), key.encode(), value.encode(), why, len(why)
        ),
        why,
    )


def reads(config: OptimConfig, key: str) -> bool:
    return bool(L.lib().musec_optim_reads(c.byref(config), key.encode()))


@dataclass(frozen=True)
class Option:
    key: str  # as the library spells it
    values: tuple[str, ...]  # the choices; empty: a number or text
    help: str

    @property
    def field(self) -> str:
        return self.key.replace("-", "_")


_THRESHOLD_RULES = ("", "rms:", "quantile:")


def options() -> list[Option]:
    """All options of the library, in its order."""
    found = []
    values, text = c.c_char_p(), c.c_char_p()
    for index in range(1000):
        key = L.lib().musec_optim_option(index, c.byref(values), c.byref(text))
        if key is None:
            break
        choices = (values.value or b"").decode()
        # "D|rms:K|quantile:Q" and the like are forms, not choices
        words = tuple(choices.split("|")) if "|" in choices and choices == choices.lower() else ()
        found.append(Option(key.decode(), words, (text.value or b"").decode()))
    return found


def default_of(config: OptimConfig, option: Option) -> Any:
    """What the config has for an option, as Python writes it; None if this package does not know
    the field, which is then left as the library has it."""
    value = getattr(config, option.field, None)
    if option.key == "threshold":
        number = float(config.threshold)
        rule = _THRESHOLD_RULES[config.threshold_rule]
        return f"{rule}{number:g}" if rule else number
    if option.key == "weight-decay":
        return float(config.weight_decay[0])
    if option.key == "operands":
        return L.DTYPE_NAMES.get(config.operands, "auto")
    if option.key == "sharpness":
        return "auto" if value == 0.0 else "hard" if value == math.inf else value
    if option.values == ("no", "yes"):
        return bool(value)
    if isinstance(value, bytes):
        return value.decode()
    if option.values and value is not None:
        return option.values[value]
    return value


# ---- PyTorch's names ------------------------------------------------------------------------------

_SHAPE_RULES = {  # of torch.optim.Muon's adjust_lr_fn; the library's own names are taken too
    "original": "keller",
    "match_rms_adamw": "moonlight",
    "spectral_unclamped": "mup",
}
_NS_COEFFICIENTS: dict[tuple[float, ...], str] = {(3.4445, -4.775, 2.0315): "keller"}


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if isinstance(value, str):
            return value
        try:
            value = float(value)
        except (TypeError, ValueError):
            return str(value)
    return repr(value)


def _shape_rule(value: Any) -> str:
    return "keller" if value is None else _SHAPE_RULES.get(str(value), str(value))


def _coefficients(value: Any) -> str:
    if isinstance(value, str):
        return value
    known = _NS_COEFFICIENTS.get(tuple(float(x) for x in value))
    if known is None:
        raise L.InvalidArgument(
            f"ns_coefficients are {tuple(value)}; Muon's own (3.4445, -4.775, 2.0315), "
            '"keller", "polar-express", "cans", "you", "turbo" and "cubic" are built in'
        )
    return known


def _yes(value: Any) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


@dataclass(frozen=True)
class Keyword:
    """An argument of an optimizer's class, and the options of the library that it stands for."""

    name: str
    keys: tuple[str, ...]
    text: Callable[[Any], str]
    help: str


def _beta(value: Any) -> str:
    return _number(1.0 - float(value))


# It divides the threshold by a factor of a schedule, and PyTorch's schedulers set rates alone.
_NOT_HERE = ("threshold-warmup",)


@functools.lru_cache(maxsize=None)
def keywords() -> dict[str, Keyword]:
    """The arguments that stand for the library's options: PyTorch's names where it has them."""
    by_key = {option.key: option for option in options()}
    renamed = {
        "beta": Keyword("momentum", ("beta",), _beta, "share of the old momentum that is kept"),
        "shape-rule": Keyword(
            "adjust_lr_fn",
            ("shape-rule",),
            _shape_rule,
            "factor on the rate by the shape: original, match_rms_adamw, spectral_unclamped, rms, "
            "fixed-rms, none",
        ),
        "ns-iters": Keyword("ns_steps", ("ns-iters",), _number, by_key["ns-iters"].help),
        "ns-coeffs": Keyword(
            "ns_coefficients", ("ns-coeffs",), _coefficients, by_key["ns-coeffs"].help
        ),
        "beta1": Keyword("betas", ("beta1", "beta2", "beta3"), _number, "decay rates of moments"),
    }
    found: dict[str, Keyword] = {}
    for key, option in by_key.items():
        if key in ("beta2", "beta3", *_NOT_HERE):
            continue
        text = _yes if option.values == ("no", "yes") else _number
        keyword = renamed.get(key) or Keyword(option.field, (key,), text, option.help)
        found[keyword.name] = keyword
    return found


def _from_text(keyword: str, value: Any) -> Any:
    if keyword == "momentum":
        return round(1.0 - value, 15)
    if keyword == "adjust_lr_fn":
        return {v: k for k, v in _SHAPE_RULES.items()}.get(value, value)
    if keyword == "ns_coefficients":
        return {v: k for k, v in _NS_COEFFICIENTS.items()}.get(value, value)
    return value


def _ever_reads(optimizer: str, key: str, by_key: Mapping[str, Option]) -> bool:
    """Whether some setting of the other options makes this optimizer read an option."""
    for chosen in ("ns-mode", "second-moment", "clip", *COMPOSING):
        if chosen in COMPOSING and not composes(optimizer):
            continue
        for value in by_key[chosen].values:
            config = new_config(optimizer)
            set_option(config, chosen, value)
            if reads(config, key):
                return True
    return False


# Parts that one class, Spectra, puts together in any way; the others have their own.
COMPOSING = ("base", "function")


def composes(optimizer: str) -> bool:
    return reads(new_config(optimizer), "clip")


def defaults(optimizer: str) -> dict[str, Any]:
    """The arguments of an optimizer's class with the library's defaults."""
    config = new_config(optimizer)
    by_key = {option.key: option for option in options()}
    found: dict[str, Any] = {}
    for keyword in keywords().values():
        used = [key for key in keyword.keys if _ever_reads(optimizer, key, by_key)]
        if not used or keyword.name in COMPOSING and not composes(optimizer):
            continue
        values = tuple(default_of(config, by_key[key]) for key in used)
        value = values if keyword.name == "betas" else values[0]
        found[keyword.name] = _from_text(keyword.name, value)
    return found


def apply(config: OptimConfig, settings: Mapping[str, Any]) -> None:
    """Puts the arguments of a class, or of a param group, into a config."""
    known = keywords()
    for name, value in settings.items():
        if value is None and name != "adjust_lr_fn":
            continue  # as the library has it
        keyword = known[name]
        values = tuple(value) if name == "betas" else (value,)
        for key, one in zip(keyword.keys, values):
            try:
                set_option(config, key, keyword.text(one))
            except L.InvalidArgument as e:
                words = str(e) if keyword.name == key else f"{name}={value!r}: {e}"
                raise L.InvalidArgument(words) from None
            except (TypeError, ValueError) as e:
                raise L.InvalidArgument(f"{name}={value!r}: {e}") from None


def keeps_own_shape(name: str) -> bool:
    """Is this a state of the rows or columns of each matrix, a square of its own?  A parameter of
    one matrix has it as that, one of several equal ones as a stack, and one of others as a row."""
    return name.startswith(("left", "right"))


# ---- names of classes -----------------------------------------------------------------------------

_SPELLINGS = {
    "muonclip": "MuonClip",
    "sgdm": "SGDM",
    "soap": "SOAP",
    "kl-shampoo": "KLShampoo",
    "adamw": "AdamW",
    "ademamix": "AdEMAMix",
    "normuon": "NorMuon",
    "adamuon": "AdaMuon",
    "muonh": "MuonH",
    "mucon": "MuCon",
    "softmuon": "SoftMuon",
}


def class_name(optimizer: str) -> str:
    """soft-musec: SoftMusec."""
    return _SPELLINGS.get(optimizer, "".join(part.capitalize() for part in optimizer.split("-")))


def nearest(name: str, names: Any) -> Optional[str]:
    import difflib

    return next(iter(difflib.get_close_matches(name, list(names), 1)), None)
