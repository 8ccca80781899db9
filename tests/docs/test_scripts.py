"""The scripts of docs/scripts, with a gcloud and without a cluster."""

import os
import subprocess

import pytest

from tests.docs.manual import ROOT

SCRIPTS = ROOT / "docs" / "scripts"
SLICE = ["big", "us-west4-a", "v5litepod-16", "--config", "configs/csan/wmt14_ende.py:big"]
# Its state is a file; a run ends with the next line of "ends", at 75 as the slice is taken away.
GCLOUD = """#!/bin/bash
echo "$3 $4 $*" >>calls
case "$3 $4" in
  "queued-resources describe")
    if [ -e unreachable ]; then rm unreachable; echo "no route" >&2; exit 1; fi
    cat state 2>/dev/null || { echo "NOT_FOUND: big" >&2; exit 1; } ;;
  "queued-resources create") echo ACTIVE >state ;;
  "queued-resources delete") rm state ;;
  "tpu-vm ssh")
    if [[ "$*" == *launch.train* ]]; then
      end="$(head -n 1 ends)" && sed -i 1d ends
      printf 'exit status %s\n' $end
      if [ "$end" = 75 ]; then echo SUSPENDED >state; exit 255; fi
    fi ;;
esac
"""


def ran(script, argv, folder, **variables):
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "POLL": "0", **variables}
    command = ["bash", str(SCRIPTS / script), *argv]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def write_programs(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


@pytest.fixture
def cloud(tmp_path):
    write_programs(tmp_path, gcloud=GCLOUD, git="#!/bin/sh\n")
    return tmp_path


CREATE = "queued-resources create"
DELETE = "queued-resources delete"


@pytest.mark.parametrize(
    ("ends", "status", "changes"),
    [
        (["0"], 0, [CREATE, DELETE]),
        (["75", "0"], 0, [CREATE, DELETE, CREATE, DELETE]),  # taken away, and made again
        (["143 0", "0 0"], 0, [CREATE, DELETE]),  # a machine has failed, the slice is there
        (["2"], 2, [CREATE]),
        (["75", "75", "75"], 1, [CREATE, DELETE, CREATE, DELETE, CREATE]),
    ],
)
def test_a_slice_is_made_again_until_the_run_has_finished(ends, status, changes, cloud):
    (cloud / "ends").write_text("".join(f"{end}\n" for end in ends))
    done = ran("tpu_slice", SLICE, cloud, RESTARTS="2")
    calls = (cloud / "calls").read_text().splitlines()
    made = [name for line in calls for name in (CREATE, DELETE) if line.startswith(name)]
    assert (done.returncode, made) == (status, changes), done.stderr
    trained = [line for line in calls if "launch.train" in line]
    assert len(trained) == len(ends) and all("--worker=all" in line for line in trained)


def test_a_request_without_an_answer_is_repeated(cloud):
    (cloud / "unreachable").touch()
    (cloud / "state").write_text("ACTIVE\n")
    (cloud / "ends").write_text("0\n")
    done = ran("tpu_slice", SLICE, cloud)
    assert done.returncode == 0 and "no route" in done.stderr
    assert CREATE not in (cloud / "calls").read_text()


def test_a_dry_run_names_the_slice_and_makes_none(cloud):
    done = ran("tpu_slice", SLICE, cloud, DRY_RUN="1", CACHE="gs://b/compiled", ACCOUNT="me")
    words = done.stdout.split()
    assert done.returncode == 0 and not (cloud / "calls").exists()
    assert {"--spot", "--service-account=me", "--runtime-version=v2-alpha-tpuv5-lite"} <= {*words}
    assert "JAX_COMPILATION_CACHE_DIR=gs://b/compiled" in done.stdout


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ("", "uv run --no-sync python -m launch.train --config a"),
        ("pyxis", "--container-image=REGISTRY#conv-attention-train"),
        ("pyxis", "--no-container-mount-home conv-attention train --config a"),
        (
            "apptainer",
            "apptainer exec --nv --bind /disk /disk/conv-attention-train.sif conv-attention",
        ),
    ],
)
def test_one_process_trains_on_a_node(container, words, cloud):
    variables = {"DRY_RUN": "1", "CONTAINER": container, "SHARED": "/disk"}
    done = ran("eight_gpus.slurm", ["--config", "a"], cloud, **variables)
    assert done.returncode == 0 and done.stdout.startswith("srun --ntasks=1 ")
    assert words in done.stdout


@pytest.mark.parametrize("status", [0, 2, 143])
def test_a_job_that_was_stopped_is_queued_again(status, cloud):
    queued = '#!/bin/sh\necho "$@" >requeued\n'
    write_programs(cloud, srun=f"#!/bin/sh\nexit {status}\n", scontrol=queued)
    done = ran("eight_gpus.slurm", ["--config", "a"], cloud, SLURM_JOB_ID="7")
    assert done.returncode == status
    assert (cloud / "requeued").exists() == (status == 143)
