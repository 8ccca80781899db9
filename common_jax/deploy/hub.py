"""Exports on a hub with the API of huggingface.co: hf://OWNER/NAME@REVISION."""

import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from common_jax.errors import UserError, missing_extra
from common_jax.fields import require
from common_jax.io.checksums import is_inside
from common_jax.io.paths import HF
from common_jax.io.progress import is_quiet

LARGEST = 4 * 2**30  # bytes of an export that is loaded by name

_WORD = r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{HF}({_WORD}/{_WORD})(?:@([A-Za-z0-9][\w./-]*))?", re.ASCII)


class Repository(NamedTuple):
    """A repository of the hub, OWNER/NAME, and a commit, tag or branch; "" if not given."""

    name: str
    revision: str

    @classmethod
    def of(cls, text: str) -> "Repository":
        """Parses hf://OWNER/NAME[@REVISION]; raises UserError for another form."""
        match = _NAME.fullmatch(text)
        require(match is not None and ".." not in text, f"{text}: write {HF}OWNER/NAME@REVISION")
        assert match is not None
        return cls(match[1], match[2] or "")


def download(name: str) -> Path:
    """Downloads a revision into the hub's cache, unless it is there; returns its folder.

    A commit in the cache needs no network, nor does a tag or branch that was looked up before.

    Raises:
      UserError: for a name without a revision, a revision that does not exist, or is neither in the
        cache nor can be downloaded, or more than `LARGEST` bytes.
    """
    repository = Repository.of(name)
    require(
        bool(repository.revision),
        f"{name}: has no revision; add @ and a commit, a tag or a branch, as in {name}@main",
    )
    hub = library(name)
    with _hub_errors(name):
        api = hub.HfApi()
        commit = api.resolve_revision(repository.name, revision=repository.revision).resolved

        def get(**options):
            return Path(api.snapshot_download(repository.name, revision=commit, **options))

        with contextlib.suppress(hub.errors.LocalEntryNotFoundError):
            return get(local_files_only=True)
        listed = api.model_info(repository.name, revision=commit, files_metadata=True).siblings
        sizes = {file.rfilename: file.size or 0 for file in listed or ()}
        require(all(map(is_inside, sizes)), f"{name}: has files outside of its folder")
        size = sum(sizes.values())
        require(size <= LARGEST, f"{name}: {size:,} bytes; at most {LARGEST:,} are loaded by name")
        return get()


def revision(name: str) -> str:
    """The name, with "@main" if it has no revision; "" for ""."""
    return name if "@" in name or not name else f"{name}@main"


def upload(folder: Path, name: str) -> str:
    """Creates a repository or replaces its files; returns the name of the new revision.

    Raises:
      UserError: if the hub refuses it, or cannot be reached.
    """
    repository = Repository.of(name)
    hub = library(name)
    with _hub_errors(name):
        api = hub.HfApi()
        api.create_repo(repository.name, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository.name,
            folder_path=folder,
            revision=repository.revision or None,
            commit_message="Export of conv-attention-jax",
            delete_patterns="*",
        )
    return f"{HF}{repository.name}@{commit.oid}"


def library(name: str) -> Any:
    """huggingface_hub, with progress bars only on terminals.

    Raises:
      UserError: if it is not installed.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise missing_extra(f"{name}: huggingface_hub is not installed; a model of a hub", "hub")
    import huggingface_hub.errors
    import huggingface_hub.utils

    huggingface_hub.utils.logging.set_verbosity_error()
    if is_quiet() or not sys.stderr.isatty():
        huggingface_hub.utils.disable_progress_bars()
    return huggingface_hub


@contextlib.contextmanager
def _hub_errors(name: str) -> Iterator[None]:
    """Converts the errors of a hub into one-line UserErrors."""
    from huggingface_hub import constants, errors

    try:
        yield
    except UserError:
        raise
    except errors.RevisionNotFoundError as error:
        raise UserError(f"{name}: has no such revision") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(f"{name}: no such model, or HF_TOKEN may not read it") from error
    except errors.HfHubHTTPError as error:
        reason = error.server_message or str(error).partition("\n")[0]
        raise UserError(f"{name}: {constants.ENDPOINT} refused it: {reason}") from error
    except (errors.RevisionResolutionError, errors.LocalEntryNotFoundError) as error:
        raise UserError(f"{name}: not in the cache, and {_unreachable(constants)}") from error
    except (errors.HTTPError, errors.OfflineModeIsEnabled) as error:
        raise UserError(f"{name}: {_unreachable(constants)}") from error
    except (OSError, ValueError) as error:  # a full disk, a reply of another form
        raise UserError(f"{name}: {next(iter(str(error).splitlines()), error)}") from error


def _unreachable(constants: Any) -> str:
    offline = " (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else ""
    return f"{constants.ENDPOINT} cannot be reached{offline}"
