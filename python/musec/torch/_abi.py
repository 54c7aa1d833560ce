"""The structures and functions of include/musec/optim.h that an engine uses, for ctypes."""

from __future__ import annotations

import ctypes as c

from .. import _library as L
from .. import _registry as R
from .blocks import Block

UNSET = -1.0
ALL = c.c_size_t(-1).value

alloc_t = c.CFUNCTYPE(c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p)
free_t = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_void_p)


class AllocatorC(c.Structure):
    _fields_ = [("alloc", alloc_t), ("free", free_t), ("user", c.c_void_p)]


class LoanC(c.Structure):
    _fields_ = [
        ("next", AllocatorC),
        ("data", c.c_void_p),
        ("bytes", c.c_size_t),
        ("is_out", c.c_int32),
        ("was_out", c.c_int32),
    ]


class ParamC(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("role", c.c_int),
        ("weight", L.View),
        ("blocks", c.POINTER(Block)),
        ("n_blocks", c.c_int64),
        ("lr_factor", c.c_double),
        ("copy", L.View),
    ]


_double_p = c.POINTER(c.c_double)


class StepArgs(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("lr_scale", c.c_double),
        ("lr", _double_p),
        ("weight_decay", _double_p),
        ("beta", _double_p),
        ("lr_at", c.POINTER(c.c_void_p)),
        ("grad_scale", c.c_void_p),
        ("found_inf", c.c_void_p),
    ]


class AttentionC(c.Structure):
    _fields_ = [
        ("q", c.c_size_t),
        ("k", c.c_size_t),
        *(
            (name, c.c_int64)
            for name in (
                "heads",
                "kv_heads",
                "q_row",
                "q_step",
                "k_row",
                "k_step",
                "head_rows",
                "k_head_rows",
                "rot_rows",
            )
        ),
    ]


class ReportC(c.Structure):
    _fields_ = [
        ("param", c.c_char_p),
        ("block", c.c_int64),
        ("rows", c.c_int64),
        ("cols", c.c_int64),
        ("step", c.c_int64),
        ("path", c.c_char * 32),
        ("threshold", c.c_double),
        ("update_norm2", c.c_double),
        ("update_rms", c.c_double),
        ("update_erank", c.c_double),
        ("sigma1_over_d", c.c_double),
        ("share_above", c.c_double),
        ("weight_norm2", c.c_double),
        ("update_gain", c.c_double),
    ]


_opt, _size, _status, _text = c.c_void_p, c.c_size_t, c.c_int, c.c_char_p
L.declare(
    {
        "musec_ctx_set_allocator": (_status, [_opt, c.POINTER(AllocatorC)]),
        "musec_ctx_trim": (_status, [_opt]),
        "musec_loan_alloc": (c.c_void_p, [_size, c.c_void_p, c.c_void_p]),
        "musec_loan_free": (c.c_void_p, [c.c_void_p, c.c_void_p, c.c_void_p]),
        "musec_optim_create": (
            _status,
            [c.POINTER(c.c_void_p), c.c_void_p, c.POINTER(R.OptimConfig)],
        ),
        "musec_optim_add": (_status, [_opt, c.POINTER(ParamC), c.POINTER(_size)]),
        "musec_optim_set_weight": (_status, [_opt, _size, L.View, L.View]),
        "musec_step_args_init": (_status, [c.POINTER(StepArgs), _size]),
        "musec_optim_step_with": (
            _status,
            [_opt, c.POINTER(L.View), _size, c.POINTER(StepArgs)],
        ),
        "musec_optim_poll": (_status, [_opt]),
        "musec_optim_can_capture": (c.c_int, [_opt, _text, _size]),
        "musec_optim_destroy": (c.c_void_p, [_opt]),
        "musec_optim_workspace": (
            _status,
            [_opt, c.POINTER(c.c_uint64), c.POINTER(c.c_uint64)],
        ),
        "musec_optim_describe": (_size, [_opt, _text, _size]),
        "musec_optim_add_attention": (
            _status,
            [_opt, c.POINTER(AttentionC), c.POINTER(_size)],
        ),
        "musec_optim_set_logits": (_status, [_opt, _size, _double_p, c.c_int64]),
        "musec_optim_get_report": (_status, [_opt, _size, c.POINTER(ReportC)]),
        "musec_optim_steps": (c.c_int64, [_opt]),
        "musec_optim_skipped": (c.c_int64, [_opt]),
        "musec_optim_state_name": (_text, [_opt, _size, _size]),
        "musec_optim_state_view": (
            _status,
            [_opt, _size, c.c_int64, _text, c.POINTER(L.View)],
        ),
        "musec_optim_state_changed": (_status, [_opt, _size]),
        "musec_optim_get_steps": (_status, [_opt, _size, c.POINTER(c.c_int64)]),
        "musec_optim_set_steps": (_status, [_opt, _size, c.c_int64]),
    }
)
