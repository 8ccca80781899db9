"""Forms of attention, and their time and memory."""

import argparse
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from common_jax import masks
from common_jax.attention import attention
from common_jax.errors import UserError
from common_jax.masks import Mask
from common_jax.numerics import random_key
from common_jax.training.malloc import physical_memory
from launch.failures import out_of_memory
from launch.measure.timing import medians
from launch.text_table import Row


def attention_forms(args: argparse.Namespace) -> dict[str, Callable]:
    """The forms by name, each a function of query, key and value."""
    try:
        masks.head_table(args.heads, args.head_window, "truncate")
        window_1d = masks.token_window(args.window)
        window_2d = window_1d & masks.head_window(args.head_window)
    except ValueError as error:
        raise UserError(str(error)) from error

    def form(mask: Mask, implementation: Any) -> Callable:
        return lambda q, k, v: attention(q, k, v, mask, implementation=implementation)

    def cudnn(q, k, v):  # supports half precision only, and no window to the right
        half = (x.astype(jnp.bfloat16) for x in (q, k, v))
        return jax.nn.dot_product_attention(*half, implementation="cudnn").astype(q.dtype)

    unwindowed = {"vanilla": jax.nn.dot_product_attention, "chunked": form(Mask(), "chunked")}
    if jax.default_backend() == "gpu":
        unwindowed["cudnn"] = cudnn
    return unwindowed | {
        f"{implementation} {dims}": form(mask, implementation)
        for dims, mask in (("1D", window_1d), ("2D", window_2d))
        for implementation in ("dense", "banded", "auto")
    }


def measure_length(args: argparse.Namespace, forms: dict[str, Callable], length: int) -> list[Row]:
    """A row for each form; None for a value that was not measured."""
    # Each form with its gradient, compiled for inputs of this length, and its memory.
    shape = (args.batch, length, args.heads, args.head_size)
    inputs = [jax.random.normal(key, shape) for key in jax.random.split(random_key(0), 4)]
    programs = {
        name: jax.jit(with_gradient(form)).lower(*inputs).compile() for name, form in forms.items()
    }
    memory = {
        name: program.memory_analysis().temp_size_in_bytes for name, program in programs.items()
    }

    # The times of those that fit into memory and time.
    calls = {name: functools.partial(program, *inputs) for name, program in programs.items()}
    calls = {name: call for name, call in calls.items() if fits(call, memory[name])}
    seconds = dict.fromkeys(forms, math.nan) | medians(calls, args.repeats)

    # Ratios are to the dense form of the same dimension, and to vanilla attention.
    rows = []
    for name in forms:
        dense = "dense 2D" if name.endswith("2D") else "dense 1D"
        rows.append(
            {
                "length": length,
                "form": name,
                "milliseconds": 1e3 * seconds[name],
                "temporary_mib": memory[name] / 2**20,
                "speed_to_dense": seconds[dense] / seconds[name],
                "speed_to_vanilla": seconds["vanilla"] / seconds[name],
                "memory_to_dense": memory[name] / memory[dense],
            }
        )
    return [{key: None if value != value else value for key, value in row.items()} for row in rows]


def fits(call: Callable, temporary: int) -> bool:
    """Whether a call fits into memory.

    Args:
      temporary: bytes that the call needs; on a CPU, whose system may kill the process instead of
        raising an error, they are compared with the physical memory first.
    """
    if jax.default_backend() == "cpu" and temporary > physical_memory():
        return False
    try:
        jax.block_until_ready(call())
    except jax.errors.JaxRuntimeError as error:
        if out_of_memory(error) is None:
            raise
        return False
    return True


def with_gradient(form: Callable) -> Callable:
    """The output and the gradients of all inputs, for a given cotangent of the output."""

    def forward_and_backward(query, key, value, cotangent):
        out, back = jax.vjp(form, query, key, value)
        return out, back(cotangent)

    return forward_and_backward
