"""Nothing but docs/releasing.md names what is not published: an address, a badge, an image."""

import contextlib
import re
import subprocess
import tomllib

from tests.docs.manual import ROOT

NAME = "conv-attention"
# What a release fills in, docs/releasing.md, and this test.
EXEMPT = {"docs/releasing.md", "tests/docs/test_published.py", "uv.lock"}
PUBLISHED = re.compile(
    rf"https?://[^\s)\"']*{NAME}"  # an address of this project
    rf"|\b(?:git@|git\+\S*){NAME}"
    rf"|pip install (?:--?\w+ )*['\"]?{NAME}"  # or its package on an index
    r"|badge\.svg|img\.shields\.io|colab\.research|colab-badge"
    rf"|(?:ghcr\.io|docker\.io|quay\.io)/|docker (?:pull|run [^`\n]*) (?!REGISTRY/){NAME}(?!-serve)"
    rf"|(?<!REGISTRY/)(?<!HOST#)\b{NAME}-train:\d"
)


def test_nothing_names_what_is_not_published():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    for name in names or [str(path.relative_to(ROOT)) for path in ROOT.glob("*.*")]:
        if name and name not in EXEMPT and (ROOT / name).is_file():
            with contextlib.suppress(UnicodeDecodeError):
                found = PUBLISHED.search((ROOT / name).read_text("utf-8"))
                assert found is None, name


def test_the_package_has_no_addresses_and_its_page_no_links_to_files():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "urls" not in project["project"]
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    page = (ROOT / hook["fragments"][0]["path"]).read_text("utf-8")
    links = r'(?:\]\(|src=")([^)"]+)'
    assert not all("://" in link for link in re.findall(links, page))
    for rule in hook["substitutions"]:
        page = re.sub(rule["pattern"], rule["replacement"], page)
    assert all(link.startswith("https://") for link in re.findall(links, page))
