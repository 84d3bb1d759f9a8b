"""The version of tclint, and how its optional parts are installed: packages that print them must not import the public
interface."""

from __future__ import annotations

__version__ = "0.1.0"


def installs(extra: str) -> str:
    """The command that installs an optional part of tclint, from where tclint itself was installed (PEP 610): a folder, an
    archive, a repository or the package index."""
    import json
    from importlib.metadata import distributions
    from urllib.parse import unquote, urlsplit

    records = (found.read_text("direct_url.json") for found in distributions(name="tclint-ptx"))
    try:
        origin = json.loads(next(filter(None, records), "{}"))
        url, editable = str(origin.get("url", "")), origin.get("dir_info", {}).get("editable")
        commit = origin.get("vcs_info", {}).get("commit_id")
    except (ValueError, AttributeError):  # what another installer wrote
        url, editable, commit = "", False, ""
    if url.startswith("file:"):
        return f"pip install {'-e ' if editable else ''}'{unquote(urlsplit(url).path)}[{extra}]'"
    return f"pip install 'tclint-ptx[{extra}]{f' @ git+{url}@{commit}' if commit else ''}'"
