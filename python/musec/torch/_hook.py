"""What PyTorch puts around the step() of every optimizer: hooks, and a name for profiles.

torch.optim.Optimizer.profile_hook_step opens a record_function at each step, whether a profiler runs
or not.  Behind a backward pass, which leaves a host's caches cold, that takes about as long as to look
at all tensors of a model of 11 layers (_exchange.py).
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch.optim import optimizer as _module

# Shown to observers other than the profiler; costs next to nothing where there are none.
_note: Any = getattr(torch._C._profiler, "_RecordFunctionFast", None)
_profiles: Any = getattr(torch.autograd, "_profiler_enabled", None)
_global_pre: Any = getattr(_module, "_global_optimizer_pre_hooks", None)
_global_post: Any = getattr(_module, "_global_optimizer_post_hooks", None)


def quick_hook(func: Callable[..., Any]) -> Callable[..., Any]:
    """In place of profile_hook_step: that itself, where a hook or a profiler is to be served."""
    served = torch.optim.Optimizer.profile_hook_step(func)
    if None in (_note, _profiles, _global_pre, _global_post):
        return served

    @functools.wraps(func)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            torch.compiler.is_compiling()
            or _profiles()
            or self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or _global_pre
            or _global_post
        ):
            return served(self, *args, **kwargs)
        with _note(f"Optimizer.step#{type(self).__name__}.step"):
            out = func(self, *args, **kwargs)
            self._optimizer_step_code()
            return out

    return wrapper
