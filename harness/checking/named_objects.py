"""What ``FILE.py:NAME`` or ``package.module:NAME`` names, and one line for whatever is wrong."""

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
from harness.pipeline.explain.model_frames import model_frame

_LISTED = 12


def split(spec: str) -> tuple[str, str]:
    """The file or module that a spec names, and the name in it, which may be missing."""
    place, colon, name = spec.rpartition(":")
    return (place, name) if colon and place else (spec, "")


def is_file(place: str) -> bool:
    """Whether a place is a Python file; else it is the dotted name of a module."""
    return place.endswith(".py") or "/" in place


def find(spec: str) -> Any:
    """The object that a spec names.

    A file's folder comes first on the search path while its code runs and after, so that it
    finds the files beside it; a module is found from the current folder, as by ``python -m``.

    Raises:
        UsageError: no such file, module or name in it; or it does not import, in one line.
    """
    place, name = split(spec)
    module = _file(Path(place)) if is_file(place) else _module(place)
    if not name:
        raise UsageError(f"{spec}: name what to take, {spec}:NAME; {_holds(place, module)}")
    try:
        return getattr(module, name)
    except AttributeError:
        near = difflib.get_close_matches(name, vars(module), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"{place} has nothing named {name!r}; {hint}{_holds(place, module)}"
        ) from None


def guarded(action: str, work: Callable[[], Any]) -> Any:
    """Run code of somebody else's.

    Args:
        action: what happens, for messages: ``my_model.py does not import``.
        work: what to run.

    Raises:
        UsageError: it raises or exits; with the line of theirs.
    """
    try:
        return work()
    except (Exception, SystemExit) as error:
        said = f"it exits ({error.code})" if isinstance(error, SystemExit) else describe(error, 400)
        if isinstance(error, SyntaxError):
            frame = f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
        else:
            frame = model_frame(error) or ""
        raise UsageError(f"{action}: {said}{f', at {frame}' if frame else ''}") from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}{_neighbour(path)}")
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look for their module; a file named like one of ours gets none.
    sys.modules.setdefault(name, module)
    _search_first(path.resolve().parent)
    loader = spec.loader
    guarded(f"{path} does not import", lambda: loader.exec_module(module))
    return module


def _module(name: str) -> ModuleType:
    _search_first(Path.cwd())
    module: ModuleType = guarded(f"{name} does not import", lambda: importlib.import_module(name))
    return module


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _neighbour(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f": there is no folder {folder}"
    names = [item.name for item in folder.iterdir() if item.suffix == path.suffix]
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {folder / near[0]}?" if near else ""


def _holds(place: str, module: ModuleType) -> str:
    """The names that a person may have meant: what the module itself defines."""
    import torch

    def is_meant(item: Any) -> bool:
        if isinstance(item, torch.nn.Module):
            return True
        is_class = inspect.isclass(item) and issubclass(item, torch.nn.Module)
        is_own = getattr(item, "__module__", None) == module.__name__
        return is_own and (is_class or inspect.isfunction(item))

    names = [
        name for name, item in vars(module).items() if not name.startswith("_") and is_meant(item)
    ]
    return f"{place} has {_listing(names)}" if names else f"{place} has no function and no module"


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"
