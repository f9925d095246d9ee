"""Upload of an exported release to the Hugging Face Hub (requires the extra `huggingface`)."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import local_copy
from bellwether.models.providers import is_well_formed
from bellwether.places import place
from bellwether.publish.card import CARD, is_export
from bellwether.publish.croissant import CROISSANT, EVAL_RESULTS
from bellwether.untrusted_text import redact

if TYPE_CHECKING:
    from huggingface_hub import HfApi

#: Environment variables of the token, and of the address of another Hub.
TOKEN, ENDPOINT = "HF_TOKEN", "HF_ENDPOINT"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REFUSALS = {
    401: f"the token is refused; make a new one with write access and put it into {TOKEN}",
    403: "the token may not write there; give it write access, or name a repository of your own",
    404: "the account or repository does not exist, or the token has no access to it; correct the name",
    409: "another client is changing the repository; try again",
    429: "too many requests; try again in a few minutes",
}


def upload(folder: Path | str, repository: str, *, private: bool = False) -> str:
    """Upload an exported release as the dataset `repository` (OWNER/NAME), in one commit. Returns the URL of the dataset.

    A missing repository is created; an existing one gets a new commit if anything has changed. The token comes from
    HF_TOKEN and is never shown. Raises `ConfigError` without the extra or the token, for a folder that is no export, an invalid name and a
    private upload to a public repository, and `BellwetherError` if the Hub refuses the upload or cannot be reached.
    """
    doing = f"uploading to {repository}"
    if not _NAME.fullmatch(repository):
        raise ConfigError(f"uploading to {repository!r}: not a name of a repository; write OWNER/NAME")
    if not is_export(place(folder)):
        raise ConfigError(f"{doing}: {folder} is not an exported release; create one with `bellwether export`")
    if find_spec("huggingface_hub") is None:
        raise ConfigError(f"{doing}: the extra `huggingface` is not installed; run `pip install -e '.[huggingface]'`")
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise ConfigError(f"{doing}: {TOKEN} is not set; set it to a token with write access from https://huggingface.co/settings/tokens")
    if not is_well_formed(token):
        raise ConfigError(f"{doing}: {TOKEN} contains blanks, line breaks or invalid characters; copy it again")
    return _upload(local_copy(folder, CARD), repository, private, token)


def _upload(folder: Path, repository: str, private: bool, token: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError

    hub = HfApi(endpoint=os.environ.get(ENDPOINT) or None, token=token, library_name="bellwether")
    try:
        address = str(hub.create_repo(repository, repo_type="dataset", private=private, exist_ok=True))
        if private:
            _require_private(hub, repository)
        written = [CARD, CROISSANT, "*/test-*.parquet", f"{EVAL_RESULTS}/*"]
        hub.upload_folder(
            repo_id=repository, repo_type="dataset", folder_path=folder, allow_patterns=written, commit_message="Publish a release"
        )
    except HFValidationError as error:
        raise ConfigError(f"uploading to {repository}: the Hub rejects the name: {_short(error)}") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise BellwetherError(f"uploading to {repository}: the Hub answers HTTP {status}: {_REFUSALS.get(status, _short(error))}") from None
    except (HTTPError, OSError, ValueError) as error:
        raise BellwetherError(
            f"uploading to {repository}: the Hub cannot be reached or its response is invalid ({_short(error)}); check the network and {ENDPOINT}"
        ) from None
    return address


def _require_private(hub: HfApi, repository: str) -> None:
    """Raise `ConfigError` if the repository on the Hub is public."""
    if not hub.repo_info(repository, repo_type="dataset").private:
        raise ConfigError(
            f"uploading to {repository}: the repository exists and is public; make it private on the Hub, name another, or leave out --private"
        )


def _short(error: Exception) -> str:
    """Return the first line of an error's message, with possible credentials removed."""
    return redact(f"{type(error).__name__}: {error}".splitlines()[0])[:200]
