"""Training, sweeping, scoring, comparing and explaining from Python; the commands call these
functions.

Results display themselves in a notebook. A user's mistake raises `UserError`. Ctrl-C, or the
interruption of a notebook, saves a run and raises `Interrupted`.
"""

from typing import TYPE_CHECKING

from common_jax.lazy import lazy_names

if TYPE_CHECKING:
    from common_jax.errors import Interrupted, UserError
    from launch.api.comparison import Comparison, compare
    from launch.api.configs import Config, config
    from launch.api.evaluation import EvaluationResult, evaluate
    from launch.api.explanation import Explanation, explain, load
    from launch.api.runs import Run, train
    from launch.api.sweeps import Sweep, plan_sweep, sweep
    from launch.trials.executor import Executor

__all__ = [
    "Comparison",
    "Config",
    "EvaluationResult",
    "Executor",
    "Explanation",
    "Interrupted",
    "Run",
    "Sweep",
    "UserError",
    "compare",
    "config",
    "evaluate",
    "explain",
    "load",
    "plan_sweep",
    "sweep",
    "train",
]

_MODULES = {
    "common_jax.errors": ("Interrupted", "UserError"),
    "launch.api.comparison": ("Comparison", "compare"),
    "launch.api.configs": ("Config", "config"),
    "launch.api.evaluation": ("EvaluationResult", "evaluate"),
    "launch.api.explanation": ("Explanation", "explain", "load"),
    "launch.api.runs": ("Run", "train"),
    "launch.api.sweeps": ("Sweep", "plan_sweep", "sweep"),
    "launch.trials.executor": ("Executor",),
}
__getattr__ = lazy_names(__name__, _MODULES)  # a command needs few of them
