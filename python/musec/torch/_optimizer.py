"""The optimizers of the library as torch.optim.Optimizer.

One class below does the work; `make_class` derives a class for each row of the registry.  Parameters
that differ only in learning rate, weight decay and momentum share one engine (_engine.py), so that
equal matrices of different groups are computed together; other options of a group make an engine of
their own.  Parameters with the role "adamw" join an engine and are updated by its AdamW.

State belongs to the library and lies in tensors of PyTorch's (`state[p]["momentum_buffer"]` is the
momentum itself, in the parameter's shape), from the moment that the optimizer is made.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections import defaultdict
from copy import deepcopy
from typing import Any, Callable, Optional

import torch

from .. import _library as L
from .. import _registry as R
from .._operators import check_tensor
from ._abi import AttentionC
from ._engine import Engine, Entry
from ._hook import quick_hook
from ._options import LIVE, SeenOptions
from ._params import layout_of, match_saved, name_of
from ._shared import Placement, is_dtensor, local_of, make_placement

_AUX = {"lr": "aux_lr", "weight_decay": "aux_weight_decay", "eps": "aux_eps"}
# What is no option of the library.
_OURS = ("params", "param_names", "role", "blocks", "maximize", "capturable", "initial_lr")
_POLL_EVERY = 1000  # steps between questions to a device that decides by itself what it skips


class MusecOptimizer(torch.optim.Optimizer):
    """The base class of all optimizers of musec.torch."""

    optimizer_name = ""
    library_defaults: dict[str, Any] = {}
    _step_supports_amp_scaling = True  # GradScaler hands over its scale and what it found

    def __init__(
        self, params: Any, settings: dict[str, Any], process_group: Any = None, share: bool = False
    ) -> None:
        self._engines: list[Engine] = []
        self._local = False
        self._engine: Optional[Engine] = None  # that can make a whole step by itself
        self._stale = True
        self._where: dict[Any, tuple[Engine, int]] = {}
        self._attentions: list[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]] = []
        self._loggers: list[tuple[Callable[..., None], bool]] = []
        self._skipped_before = 0
        self._said_skipped = 0
        self._calls = 0
        self._ready = False
        self.process_group = process_group
        self.share = share
        self.placement = Placement()
        R.apply(R.new_config(self.optimizer_name), _of_library(settings))  # refuses wrong values
        defaults = dict(settings, role="matrix", blocks=None)
        super().__init__(params, defaults)
        self._ready = True
        self._build()

    # ---- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if isinstance(param_group, dict):
            param_group = dict(param_group)
            self._complete(param_group)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            self._check_group(group, len(self.param_groups) - 1)
            if self._ready:
                self._build()
        except Exception:
            self.param_groups.pop()
            self._stale = True
            raise

    def _complete(self, group: dict[str, Any]) -> None:
        """Refuses unknown options, and gives an AdamW group the defaults that are its own."""
        role = group.setdefault("role", "matrix")
        if role not in R.ROLES:
            raise L.InvalidArgument(f'role is "{role}"; it must be one of {", ".join(R.ROLES)}')
        known = set(self.defaults) | set(_OURS)
        if role not in R.MATRIX_ROLES:
            known |= {"betas", "eps"}
        for name in group:
            if name not in known and not name.startswith("_"):
                near = R.nearest(name, known)
                raise L.InvalidArgument(
                    f'{type(self).__name__} has no option "{name}"'
                    + (f'; did you mean "{near}"?' if near else "")
                )
        if role not in R.MATRIX_ROLES:
            for name, source in _AUX.items():
                group.setdefault(name, self.defaults[source])
            group.setdefault("betas", (self.defaults["aux_beta1"], self.defaults["aux_beta2"]))
        elif group.get("adjust_lr_fn", "") is None:
            group["adjust_lr_fn"] = "original"  # as torch.optim.Muon has it

    def _check_group(self, group: dict[str, Any], number: int) -> None:
        """All that the library would refuse, before anything is made."""
        config = R.new_config(self.optimizer_name)
        R.apply(config, {k: v for k, v in self._settings(group).items()})
        for name, high in (("lr", math.inf), ("weight_decay", math.inf), ("momentum", 1.0)):
            value = group.get(name, 0.0)
            if isinstance(value, torch.Tensor):
                if value.numel() != 1:
                    raise L.InvalidArgument(
                        f"{name} is a tensor of {value.numel()} elements, not 1"
                    )
                value = float(value) if value.device.type == "cpu" else 0.0
            if not (isinstance(value, (int, float)) and 0.0 <= value <= high and value < math.inf):
                raise L.InvalidArgument(
                    f"{name} is {value!r}; it must be a number "
                    + ("from 0 to 1" if high == 1.0 else "of 0 or more")
                )
        for i, p in enumerate(group["params"]):
            what = name_of(group, number, i)
            check_tensor(local_of(p), what)
            if not is_dtensor(p) or group["role"] in R.MATRIX_ROLES:
                layout_of(p, group, what)

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options that an engine is made with."""
        known = R.keywords()
        aux = group["role"] not in R.MATRIX_ROLES
        found = {}
        for name, value in group.items():
            if name in known and name not in LIVE and not (aux and name not in ("betas", "eps")):
                found[name] = value
        if aux:
            betas = found.pop("betas")
            found = {"aux_beta1": betas[0], "aux_beta2": betas[1], "aux_eps": found["eps"]}
        else:
            found = {k: v for k, v in found.items() if not k.startswith("aux_")}
            if group.get("capturable") and found.get("nonfinite") is None:
                found["nonfinite"] = "defer"
        return found

    # ---- engines ---------------------------------------------------------------------------------

    def _plan(self) -> list[tuple[torch.device, dict[str, Any], list[Entry]]]:
        """Which parameters go to which engine: those of a device with equal options together, and
        the first AdamW options with the first of the matrices."""
        tables: dict[Any, dict[bool, dict[Any, list[Entry]]]] = defaultdict(
            lambda: {False: {}, True: {}}
        )
        settings: dict[Any, dict[str, Any]] = {}
        for number, group in enumerate(self.param_groups):
            mine = self._settings(group)
            key = tuple(sorted((k, repr(v)) for k, v in mine.items()))
            settings[key] = mine
            aux = group["role"] not in R.MATRIX_ROLES
            for i, p in enumerate(group["params"]):
                name = name_of(group, number, i)
                for weight, layout, source in self.placement.pieces(p, group, name):
                    if weight.numel() == 0:
                        continue
                    entry = Entry(weight, name, group, layout, p, source)
                    if not weight.is_contiguous():
                        entry.staging = weight.detach().clone(memory_format=torch.contiguous_format)
                    tables[weight.device][aux].setdefault(key, []).append(entry)
        plan = []
        for device, table in tables.items():
            matrices, others = list(table[False].items()), list(table[True].items())
            for i in range(max(len(matrices), len(others))):
                chosen: dict[str, Any] = {}
                entries: list[Entry] = []
                for part in (matrices[i : i + 1], others[i : i + 1]):
                    for key, some in part:
                        chosen.update(settings[key])
                        entries += some
                plan.append((device, chosen, entries))
        return plan

    @torch.no_grad()
    def _build(self) -> None:
        """Makes the engines, and moves state from those before."""
        kept = {key: (engine.state(i), engine.steps(i)) for key, (engine, i) in self._where.items()}
        if self.placement.distributed and kept:  # owners may change
            kept = self._kept_everywhere()
        self._skipped_before += sum(engine.skipped for engine in self._engines)
        total = max((engine.steps() for engine in self._engines), default=0)
        self.placement = make_placement(self)
        where: dict[Any, tuple[Engine, int]] = {}
        engines = []
        for device, settings, entries in self._plan():
            engine = Engine(self.optimizer_name, settings, device, entries)
            engines.append(engine)
            for i, entry in enumerate(entries):
                where[entry.key] = (engine, i)
                if entry.key in kept and not self.placement.distributed:
                    engine.set_state(i, *kept[entry.key])
            if total:
                engine.set_all_steps(total)
        self._engines, self._where = engines, where
        self._local = (
            len(engines) == 1
            and not self.placement.distributed
            and all(entry.source is None for entry in engines[0].entries)
        )
        flips = any(group.get("maximize", False) for group in self.param_groups)
        self._engine = engines[0] if self._local and not flips else None
        if self.placement.distributed:
            for p, (values, steps) in kept.items():
                self._load(p, {**values, "step": steps})
        self._attention_at = [self._attend(*one) for one in self._attentions]
        self._options = SeenOptions(self.param_groups)
        self._stale = False
        self._show_state()

    def _kept_everywhere(self) -> dict[Any, Any]:
        """State in the parameters' own sharding, on every process."""
        self.placement.collect(self)
        return {
            p: ({k: v for k, v in self.state[p].items() if k != "step"}, int(self.state[p]["step"]))
            for group in self.param_groups
            for p in group["params"]
            if "step" in self.state[p]
        }

    def _show_state(self) -> None:
        """`state`, as PyTorch's own tools expect it."""
        for group in self.param_groups:
            for p in group["params"]:
                shown = self.state[p]
                shown.clear()
                steps = 0
                if p in self._where:
                    engine, i = self._where[p]
                    steps = engine.steps(i)
                    if self.placement.is_whole(p):
                        shown.update(engine.state(i))
                shown["step"] = torch.tensor(float(steps))

    def _up_to_date(self) -> None:
        moved = any(engine.moved() for engine in self._engines)
        if self._stale or moved or self._options.changed(self.param_groups):
            for number, group in enumerate(self.param_groups):
                self._check_group(group, number)
            self._build()

    # ---- a step ----------------------------------------------------------------------------------

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        return quick_hook(func)

    @torch._disable_dynamo
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step.  `closure`, if given, computes the loss again and returns it."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scale = getattr(self, "grad_scale", None)
        found = getattr(self, "found_inf", None)
        engine = self._engine
        if (
            engine is None
            or self._stale
            or self._options.changed(self.param_groups)
            or not engine.step_at_once(_on(scale, engine.device), _on(found, engine.device))
        ):
            self._step_by_parts(scale, found)
        self._calls += 1
        if self._loggers or self._calls % _POLL_EVERY == 0:
            self._after()
        return loss

    @torch.no_grad()
    def _step_by_parts(self, scale: Any, found: Any) -> None:
        """A step that looks at everything first, and may have to make engines anew."""
        if not _capturing():
            self._up_to_date()
        if self._local:
            self._step_local(scale, found)
        else:
            self._step_apart(scale, found)

    def _step_local(self, scale: Any, found: Any) -> None:
        """One engine steps the parameters where they lie."""
        (engine,) = self._engines
        grads = [entry.key.grad for entry in engine.entries]
        if any(group.get("maximize", False) for group in self.param_groups):
            flips = [entry.group.get("maximize", False) for entry in engine.entries]
            grads = [-g if g is not None and flip else g for g, flip in zip(grads, flips)]
        engine.step(grads, _on(scale, engine.device), _on(found, engine.device))

    def _step_apart(self, scale: Any, found: Any) -> None:
        """Several engines, or several processes, make one step."""
        grads = {}
        for number, group in enumerate(self.param_groups):
            flip = group.get("maximize", False)
            for i, p in enumerate(group["params"]):
                grad = p.grad
                if grad is None:
                    continue
                if grad.layout != torch.strided or grad.is_complex():
                    check_tensor(local_of(grad), f"the gradient of {name_of(group, number, i)}")
                grads[p] = -grad if flip else grad
        local = self.placement.gather(grads)
        found = self._found_anywhere(grads, found)
        for engine in self._engines:
            engine.step(
                [local.get(entry.key) for entry in engine.entries],
                _on(scale, engine.device),
                _on(found, engine.device),
            )
        self.placement.scatter(grads)

    def _found_anywhere(self, grads: dict[Any, torch.Tensor], found: Any) -> Any:
        """Where several engines, or several processes, make one step, none may take it if another
        skips it: the gradients are looked at here, before."""
        if len(self._engines) < 2 and not self.placement.distributed:
            return found
        bad = self.placement.any_nonfinite(list(grads.values()))
        if found is not None:
            return torch.maximum(bad, torch.as_tensor(_on(found, bad.device)))
        if self._stops() and bool(bad):
            names = [
                name_of(group, number, i)
                for number, group in enumerate(self.param_groups)
                for i, p in enumerate(group["params"])
                if p in grads and not bool(torch.isfinite(local_of(grads[p])).all())
            ]
            raise L.NonFinite(
                f"the gradient of {names[0] if names else 'a parameter, elsewhere,'} holds a NaN or "
                "an infinity; nothing was changed"
            )
        return bad

    def _stops(self) -> bool:
        """Whether a gradient that is not finite raises: the same on processes that own nothing."""
        if any(engine.policy == "stop" for engine in self._engines):
            return True
        for group in self.param_groups:
            policy = group.get("nonfinite")
            on_cpu = any(p.device.type == "cpu" for p in group["params"])
            if policy == "stop" or policy is None and on_cpu and not group.get("capturable"):
                return True
        return False

    def _after(self) -> None:
        if self._calls % _POLL_EVERY == 0:
            if any(engine.policy == "defer" for engine in self._engines) and not _capturing():
                self.skipped  # noqa: B018  asks, and warns of new ones
        if self._loggers and not _capturing():
            self._log()

    @property
    def skipped(self) -> int:
        """Steps that were skipped because of a NaN or an infinity.  Waits for the device."""
        for engine in self._engines:
            if engine.policy == "defer":
                engine.poll()
        now = self._skipped_before + max((engine.skipped for engine in self._engines), default=0)
        if now > self._said_skipped and not hasattr(self, "found_inf"):
            warnings.warn(
                f"{type(self).__name__}: {now - self._said_skipped} steps were skipped because a "
                "gradient held a NaN or an infinity",
                stacklevel=3,
            )
            self._said_skipped = now
        return now

    def can_capture(self) -> str:
        """ "" if a step could be captured into a CUDA graph now, else the reason why not."""
        return "; ".join(filter(None, (engine.can_capture() for engine in self._engines)))

    # ---- state -----------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Brings `state` up to date: counts of steps, and what is not the library's own memory."""
        self._up_to_date()
        for engine in self._engines:
            engine.poll()
        self.placement.collect(self)

    @torch._disable_dynamo
    @torch.no_grad()
    def state_dict(self) -> dict[str, Any]:
        """As of every torch.optim.Optimizer: "state" by index, "param_groups" with the options.

        What the library derived from the state, to round by at the next step, is not in it: it is
        derived anew, here as where the state is loaded, so that both go on with the same bits."""
        self._refresh()
        for engine in self._engines:
            engine.forget_derived()
        return super().state_dict()

    @torch._disable_dynamo
    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state_dict of this class, or of torch.optim.Muon or AdamW where the states are
        the same.  Parameters are matched by name if both sides have names, else by their order.
        State keeps its precision whatever the parameters' dtype is."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        saved = deepcopy(state_dict["param_groups"])
        pairs = match_saved(self.param_groups, saved)
        options = []
        for group, (source, _) in zip(self.param_groups, pairs):
            new = {k: v for k, v in source.items() if k not in ("params", "param_names")}
            if "ns_coefficients" in new and "ns_eps" not in new and "ns_eps" in group:
                new["ns_eps"] = new.get("eps", group["ns_eps"])  # of torch.optim.Muon
            new = {k: v for k, v in new.items() if k in group or k not in R.keywords()}
            options.append({**group, **new})
        before = [dict(group) for group in self.param_groups]
        try:
            for group, new in zip(self.param_groups, options):
                group.update(new)
            self._up_to_date()
            for group, (_, ids) in zip(self.param_groups, pairs):
                for p, index in zip(group["params"], ids):
                    self._load(p, state_dict["state"].get(index, {}))
        except Exception:
            for group, old in zip(self.param_groups, before):
                group.clear()
                group.update(old)
            self._stale = True
            raise
        total = max((e.steps(i) for e, i in self._where.values()), default=0)
        for engine in self._engines:
            engine.set_all_steps(total)
        self._show_state()
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)

    def _load(self, p: torch.Tensor, values: dict[str, Any]) -> None:
        values = self.placement.localize(p, values)
        if p not in self._where:
            return
        engine, i = self._where[p]
        steps = values.get("step")
        # torch.optim.Muon counts no steps; a momentum that is there has been through one
        count = int(steps) if steps is not None else int("momentum_buffer" in values)
        engine.set_state(i, values, count)

    def __getstate__(self) -> dict[str, Any]:  # pickle and copy.deepcopy
        return {
            "defaults": self.defaults,
            "state_dict": self.state_dict(),
            "params": [group["params"] for group in self.param_groups],
            "names": [group.get("param_names") for group in self.param_groups],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "state_dict" not in state:  # torch.optim.Optimizer's own use
            super().__setstate__(state)
            return
        groups = []
        for saved, params, names in zip(
            state["state_dict"]["param_groups"], state["params"], state["names"]
        ):
            group = {k: v for k, v in saved.items() if k not in ("params", "param_names")}
            group["params"] = list(zip(names, params)) if names else list(params)
            groups.append(group)
        settings = {k: v for k, v in state["defaults"].items() if k not in ("role", "blocks")}
        MusecOptimizer.__init__(self, groups, settings)
        self.load_state_dict(state["state_dict"])

    # ---- what it did -----------------------------------------------------------------------------

    def report(self) -> list[dict[str, Any]]:
        """A dict for each matrix, as of the last measured step (option `report_every`): `param`,
        `block`, `rows`, `cols`, `step` (0: not measured yet), `path` (the operator), `threshold`,
        `sigma1_over_d` and `share_above` of the momentum before the clip, `update_norm2`,
        `update_rms`, `update_erank`, `update_gain`, `weight_norm2`."""
        return [row for engine in self._engines for row in engine.report()]

    def describe(self) -> str:
        """What was chosen for every parameter, and why, in lines for people."""
        return "\n".join(engine.describe().rstrip("\n") for engine in self._engines)

    def log_to(self, logger: Any, prefix: str = "musec/") -> None:
        """Hands numbers of every measured step over.  `logger` is a TensorBoard SummaryWriter (it
        has add_scalar) or a function of a dict and the step, such as
        lambda row, step: wandb.log(row, step=step)."""
        if hasattr(logger, "add_scalar"):

            def write(row: dict[str, float], step: int) -> None:
                for name, value in row.items():
                    logger.add_scalar(name, value, step)

        elif callable(logger):
            write = logger
        else:
            raise L.InvalidArgument(
                "the logger must have add_scalar, or be a function of a dict and a step"
            )
        self._loggers.append((write, prefix))  # type: ignore[arg-type]
        self._logged = 0

    def _log(self) -> None:
        every = int(self.defaults.get("report_every") or 0)
        if not every:
            return
        rows = [row for row in self.report() if row["step"] > self._logged]
        if not rows:
            return
        step = max(row["step"] for row in rows)
        self._logged = step
        numbers = {}
        for row in rows:
            for name, value in row.items():
                if isinstance(value, float):
                    numbers[f"{row['param']}/{row['block']}/{name}"] = value
        for write, prefix in self._loggers:
            write({f"{prefix}{name}": value for name, value in numbers.items()}, step)

    # ---- QK-Clip ---------------------------------------------------------------------------------

    def add_attention(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        heads: int,
        kv_heads: Optional[int] = None,
        **rows: int,
    ) -> int:
        """Declares which rows of two weights are the queries and keys of which head (muonclip).

        Without `rows` the heads divide the rows of q and of k.  A fused weight is both q and k:
        give q_row, q_step, k_row, k_step and head_rows then (include/musec/optim.h).  Returns the
        number that set_logits takes."""
        kv_heads = kv_heads or heads
        shape = {
            "q_row": 0,
            "q_step": q.shape[0] // heads,
            "k_row": 0,
            "k_step": k.shape[0] // kv_heads,
            "head_rows": q.shape[0] // heads,
            "k_head_rows": 0,
            "rot_rows": 0,
            **rows,
            "heads": heads,
            "kv_heads": kv_heads,
        }
        for p in (q, k):
            if p not in self._where:
                raise L.InvalidArgument("q and k must be parameters of this optimizer")
        self._attentions.append((q, k, shape))
        try:
            self._build()
        except Exception:
            self._attentions.pop()
            self._stale = True
            raise
        return len(self._attentions) - 1

    def _attend(self, q: torch.Tensor, k: torch.Tensor, shape: dict[str, int]) -> Any:
        engine, i = self._where[q]
        other, j = self._where[k]
        if other is not engine:
            raise L.InvalidArgument("q and k must have the same options and device")
        return engine, engine.add_attention(AttentionC(q=i, k=j, **shape))

    def set_logits(self, attention: int, max_logit: Any) -> None:
        """The largest attention logit of each head in the forward pass, before each step."""
        values = max_logit.tolist() if isinstance(max_logit, torch.Tensor) else list(max_logit)
        engine, index = self._attention_at[attention]
        engine.set_logits(index, [float(x) for x in values])


# ---- helpers --------------------------------------------------------------------------------------


def _of_library(settings: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in settings.items() if k in R.keywords() and k not in LIVE}


def _capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _on(x: Any, device: torch.device) -> Optional[torch.Tensor]:
    """A number of GradScaler's as float32 on the engine's device."""
    if x is None:
        return None
    return torch.as_tensor(x, dtype=torch.float32, device=device).reshape(())
