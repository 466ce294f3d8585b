"""Load the object that ``FILE.py:NAME`` or ``package.module:NAME`` names."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UsageError, describe
from harness.pipeline.explain.model_frames import find_model_frame

_LISTED = 12


def split_spec(spec: str) -> tuple[str, str]:
    """Split a spec into file or module and the name in it, which may be empty."""
    place, colon, name = spec.rpartition(":")
    return (place, name) if colon and place else (spec, "")


def is_file(place: str) -> bool:
    """Whether a place is a Python file and not the dotted name of a module."""
    return place.endswith(".py") or "/" in place


def load_object(spec: str) -> Any:
    """Load the object that a spec names.

    The folder of a file is put first on the search path, so that it can import the files beside
    it. A module is searched from the current folder, as by ``python -m``.

    Raises:
        UsageError: the file, the module or the name does not exist, or the import fails.
    """
    place, name = split_spec(spec)
    module = _load_file(Path(place)) if is_file(place) else _import_module(place)
    if not name:
        raise UsageError(
            f"{spec}: name a function or module in it, {spec}:NAME; {_list_names(place, module)}"
        )
    try:
        return getattr(module, name)
    except AttributeError:
        near = difflib.get_close_matches(name, vars(module), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"{place} has nothing named {name!r}; {hint}{_list_names(place, module)}"
        ) from None


def run_user_code(action: str, work: Callable[[], Any]) -> Any:
    """Run the user's code.

    Args:
        action: begin of the error message, such as ``my_model.py does not import``.
        work: the code to run.

    Raises:
        UsageError: the code raises an error or exits; the message names the line of the code.
    """
    try:
        return work()
    except (Exception, SystemExit) as error:
        why = f"it exits ({error.code})" if isinstance(error, SystemExit) else describe(error, 400)
        if isinstance(error, SyntaxError):
            frame = f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
        else:
            frame = find_model_frame(error) or ""
        raise UsageError(f"{action}: {why}{f', at {frame}' if frame else ''}") from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}{_suggest_file(path)}")
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look up their module. Do not replace a loaded module of the same name.
    sys.modules.setdefault(name, module)
    _put_on_search_path(path.resolve().parent)
    loader = spec.loader
    run_user_code(f"{path} does not import", lambda: loader.exec_module(module))
    return module


def _import_module(name: str) -> ModuleType:
    _put_on_search_path(Path.cwd())
    module: ModuleType = run_user_code(
        f"{name} does not import", lambda: importlib.import_module(name)
    )
    return module


def _put_on_search_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _suggest_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f": there is no folder {folder}"
    names = [item.name for item in folder.iterdir() if item.suffix == path.suffix]
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {folder / near[0]}?" if near else ""


def _list_names(place: str, module: ModuleType) -> str:
    """The functions and modules that the file itself defines, for the error message."""
    import torch

    def is_candidate(item: Any) -> bool:
        if isinstance(item, torch.nn.Module):
            return True
        is_class = inspect.isclass(item) and issubclass(item, torch.nn.Module)
        is_own = getattr(item, "__module__", None) == module.__name__
        return is_own and (is_class or inspect.isfunction(item))

    names = [
        name
        for name, item in vars(module).items()
        if not name.startswith("_") and is_candidate(item)
    ]
    return (
        f"{place} has {_join_names(names)}" if names else f"{place} has no function and no module"
    )


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"
