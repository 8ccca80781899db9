"""Scores a run's best checkpoint, or the mean of its newest, on a split of its corpus."""

from common_jax.errors import UserError
from launch.cli import Parser, quiet, run

DESCRIPTION = (
    __doc__
    + """
Writes eval/<split>.json and the predictions into the run's folder (with --average K
eval/<split>-average<K>.json) and prints the metrics as JSON, for translation with sacreBLEU's
signature.

example:
  python -m launch.evaluate --workdir runs/csan/quickstart --split test"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.evaluate", description=DESCRIPTION)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--split", default="test", help="which split to score (test)")
    parser.add_argument(
        "--average",
        type=int,
        default=1,
        metavar="K",
        help="parameters: mean of K newest checkpoints",
    )
    args = parser.parse_args(argv)
    if args.average < 1:
        parser.error(f"--average {args.average}: at least 1")
    quiet()
    import json

    from common_jax.training.config import MeshConfig
    from common_jax.training.evaluate import evaluate
    from common_jax.training.mesh import make_mesh
    from common_jax.training.run import read_parameters
    from common_jax.training.step import make_predict_step
    from common_jax.training.workdir import Workdir

    workdir = Workdir(args.workdir)
    task = workdir.read_task()
    if args.split not in task.splits:
        raise UserError(f"--split {args.split}: must be {' | '.join(task.splits)}")
    mesh = make_mesh(MeshConfig())
    params = read_parameters(workdir, task, mesh, args.average)
    task.prepare()
    step = make_predict_step(task, mesh, final=True)
    scored = evaluate(task, params, args.split, step, mesh)
    average = f"-average{args.average}" if args.average > 1 else ""
    workdir.write_scored(args.split + average, scored)
    print(json.dumps({"split": args.split, **scored.metrics, **scored.notes}, indent=2))


if __name__ == "__main__":
    run(main)
