"""A model is pushed to a hub and loaded by name; tests/nightly/hub has forgeries."""

from common_jax.deploy import load
from common_jax.deploy.format import Export
from tests.launch import commands
from tests.nightly.hub.pushed import LINES, NAME, UNREACHABLE, at


def test_a_pushed_export_is_loaded_once_and_answers_as_the_run(
    hub, folder, pushed, monkeypatch, capsys
):
    expected = list(load(folder / "run").predict(LINES))
    printed = commands.answers(monkeypatch, capsys, LINES, "--model", pushed)
    assert printed == [*map(str, expected)]
    assert sum("/lfs/" in path for method, path in hub.requests if method == "GET") >= 1
    hub.requests.clear()
    assert Export(pushed).is_foreign
    assert hub.requests == []
    Export(f"{NAME}@main")  # resolves the branch
    assert [path for _, path in hub.requests] == ["/api/models/ada/adder/revision/main"]
    at(monkeypatch, UNREACHABLE)
    assert list(load(pushed).predict(LINES)) == expected
    assert Export(f"{NAME}@main").path == Export(pushed).path
