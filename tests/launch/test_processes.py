"""Real processes, each kind once; tests/nightly/launch has more kills, disks and signals."""

from launch.train import __main__ as train
from tests.launch.commands import arguments, toy_config
from tests.nightly.launch import jobs
from tests.nightly.launch.test_interrupts import interrupted


@jobs.needs_seccomp
def test_a_killed_run_on_a_disk_without_locks_resumes(tmp_path):
    jobs.killed_and_resumed(tmp_path, jobs.DVS, toy_config(tmp_path), beside=False)


def test_two_processes_equal_a_single_process(tmp_path):
    rhythm = {**jobs.TOY_RHYTHM, "train.steps": 20, "train.evaluate_every": 10}
    two = jobs.complete(tmp_path, "two", "toy", 2, 2, **rhythm).run
    rhythm |= {"data.cache_dir": tmp_path / "corpus", "mesh.data": 4}
    train.main(arguments(str(tmp_path / "toy.py"), tmp_path, "one", **rhythm))
    jobs.agree(tmp_path / "one", two)


def test_ctrl_c_ends_a_program_that_never_returns():
    assert interrupted("computes") == ("", "stopped\n", 130)
