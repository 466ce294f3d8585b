"""Writes a cell down as a Python file that shows it: exit code 1 where the defect shows, 0 where it
is gone, 2 where it cannot be tried.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from harness.errors import UsageError
from harness.model.backend import Backend
from harness.model.case import Case
from harness.model.recipe import Recipe, Script
from harness.record.target import Target
from harness.tracing.script import support_code
from harness.tracing.script.graph import Source
from harness.tracing.script.recorded_cell import Seen
from harness.tracing.script.tensor_text import BESIDE, Values
from harness.tracing.trial import Bench, Say


@dataclass(frozen=True)
class Written:
    """A script that was written.

    Attributes:
        path: the script.
        beside: the file with its long tensors, or None.
        problem: what is wrong with the cell, or None for a green one, whose script says "gone".
        ours: how what was seen here was seen otherwise than by the script; or empty.
    """

    path: Path
    beside: Path | None
    problem: str | None
    ours: str


def write_script(
    path: Path,
    case: Case,
    target: Target | str,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    about: Sequence[str] = (),
    say: Say | None = None,
) -> Written:
    """Write a case on a target as a script that needs torch and executorch only.

    Args:
        path: the file; long tensors go to one of the same name that ends in ``.pt``.
        case: what is tested.
        target: where.
        seed: run seed.
        recipe: used instead of the one that the target names.
        backend: used instead of the one that the target names.
        about: paragraphs for its head.
        say: hears what is being done.

    Raises:
        UsageError: the case has no graph, its recipe no script, or the file cannot be written.
    """
    bench = Bench(case, target, seed, recipe, backend, say, isolate=True)
    if bench.recipe.script is None:
        raise UsageError(
            f"{bench.target} does not say how it lowers without this harness (Recipe.script)"
        )
    bench.say("running the program")
    seen = Seen.of(bench)
    values = Values()
    text = _text(seen, bench.recipe.script, values, about)
    beside = path.with_suffix(".pt") if values.beside else None
    try:
        path.write_text(text)
        if beside is not None:
            torch.save(values.beside, beside)
    except OSError as error:
        raise UsageError(f"cannot write the script to {path}: {error.strerror}") from error
    return Written(path, beside, seen.problem, seen.ours)


def _text(seen: Seen, script: Script, values: Values, about: Sequence[str]) -> str:
    source = Source(values)
    source.add(seen.graph, "Model")
    # What a reader looks for comes first: the model, and how it is lowered and run.
    shown = [*source.lines, *_lowering(seen, script)]
    data = [*_calls(seen, values), *_bounds(seen, values), *_main(seen, source)]
    if values.beside:
        data.insert(0, f'{BESIDE} = torch.load(Path(__file__).with_suffix(".pt"))')
    body = "\n".join([*shown, *(f"\n\n{piece}" for piece in _pieces([*shown, *data])), "\n", *data])
    preamble = _without_head(script.preamble)
    imports = [*_imports(body + preamble), *_registering(source)]
    if preamble:
        imports += ["\n", preamble, ""]
    own = [line for line in script.imports if _is_used(line, body + preamble)]
    parts = [*_head(seen, about), *imports, *own, "\n", body]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts)).rstrip() + "\n"


def _head(seen: Seen, about: Sequence[str]) -> Iterator[str]:
    bench = seen.bench
    said = seen.problem or "nothing is wrong with it here"
    runtime = bench.backend.availability().runtime
    lines = [f"Case {bench.case.name}, seed {bench.seed}. Observed ({runtime}): {said}", *about]
    if seen.ours:
        lines.append(f"Seen otherwise than by this script: {seen.ours}.")
        if delegate := bench.recipe.script.delegate if bench.recipe.script else "":
            lines.append(
                f"The script lowers with upstream's code. A runtime that has {delegate} executes "
                f"the program; elsewhere it is saved, and the defect cannot be tried."
            )
    yield f'"""{_plain(f"{bench.case.op} on {bench.target}")}'
    for line in lines:
        yield ""
        yield from textwrap.wrap(_plain(line), 98)
    versions = (f"{name} {metadata.version(name)}" for name in ("torch", "executorch"))
    yield ""
    yield f"Written with {', '.join(versions)}. Exit code 1: the defect shows; 0: it is gone; 2: it"
    yield 'cannot be tried here.\n"""\n'


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''")


# What a script imports when it uses it, standard library first.
_STANDARD = """
base64 contextlib copy importlib.metadata importlib.util io logging math operator shutil subprocess
sys tempfile warnings zlib
""".split()
_NAMED = (
    ("from collections.abc import Callable", "Callable"),
    ("from importlib.machinery import PathFinder", "PathFinder"),
    ("from pathlib import Path", "Path"),
    ("from typing import Any", "Any"),
)


def _imports(text: str) -> Iterator[str]:
    """The import statements that a text needs."""
    text += "logging.x warnings.x"
    yield from (f"import {name}" for name in _STANDARD if re.search(rf"\b{name}\.\w", text))
    yield from (line for line, name in _NAMED if re.search(rf"\b{name}\b", text))
    yield '\nwarnings.simplefilter("ignore")'
    yield "logging.disable(logging.WARNING)  # what packages say of themselves\n"
    yield "import torch"
    yield "from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower"
    if "TorchDispatchMode" in text:
        yield "from torch.utils._python_dispatch import TorchDispatchMode"
    yield "from torch.utils._pytree import tree_map"
    if "prepare_pt2e" in text:
        yield "from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e"


def _is_used(line: str, text: str) -> bool:
    """Whether a text uses a name that a statement imports; a whole module is imported for what its
    import does."""
    names = line.partition(" import ")[2]
    return not names or any(re.search(rf"\b{name.strip()}\b", text) for name in names.split(","))


def _registering(source: Source) -> Iterator[str]:
    if "quantized_decomposed" in source.namespaces:
        yield "import torch.ao.quantization.fx._decomposed  # registers operators"


def _pieces(lines: Sequence[str]) -> list[str]:
    """The functions that a script uses, those included that they use."""
    found: dict[str, str] = {}
    text = "\n".join(lines)
    for _ in support_code.PIECES:
        for piece in support_code.PIECES:
            if piece.__name__ not in found and re.search(rf"\b{piece.__name__}\b", text):
                lines = inspect.getsource(piece).split("\n")
                found[piece.__name__] = "\n".join(x.partition("  # type:")[0] for x in lines)
                text += found[piece.__name__]
    return [found[piece.__name__] for piece in support_code.PIECES if piece.__name__ in found]


def _without_head(text: str) -> str:
    """The definitions of a module: without docstring and imports."""
    lines = text.split("\n")
    starts = (n for n, line in enumerate(lines) if line.startswith(("def ", "class ", "@")))
    first = next(starts, None)
    return "" if first is None else "\n" + "\n".join(lines[first:]).strip() + "\n"


def _lowering(seen: Seen, script: Script) -> Iterator[str]:
    shapes = _dynamic_shapes(seen)
    dynamic = f", dynamic_shapes={shapes}" if shapes else ""
    yield "def export(module):"
    yield f"    return torch.export.export(module, CALLS[0]{dynamic})\n\n"
    yield "def make_model():"
    if seen.bench.recipe.quantizer is None:
        yield "    return Model().eval()\n\n"
    else:
        number = len(seen.tester.built.calls)
        yield "    exported = export(Model().eval())"
        yield "    module = exported.module(check_guards=False)"
        yield f"    prepared = prepare_pt2e(module, {script.quantizer})"
        yield f"    for call in CALLS[:{number}]:"
        yield "        prepared(*call)"
        yield "    return convert_pt2e(prepared)\n\n"
    yield "def lower(model):"
    yield "    return to_edge_transform_and_lower("
    yield "        export(model),"
    if script.transform_passes != "[]":
        yield f"        transform_passes={script.transform_passes},"
    yield f"        partitioner={script.partitioners},"
    yield f"        compile_config={script.edge_config},"
    yield "    )\n\n"
    yield "def run(lowered):"
    native = (
        "program = bytes(lowered.to_executorch().buffer)\n"
        f'return execute(program, CALLS, {script.delegate!r}, Path(__file__).with_suffix(".pte"))'
    )
    yield textwrap.indent((script.run or native).strip(), "    ")
    yield "\n"


def _dynamic_shapes(seen: Seen) -> str:
    """The dynamic dimensions of the flat inputs, as text; empty where all are static."""
    if seen.bench.case.dynamic_shapes is None:
        return ""
    ranges = seen.tester.exported.range_constraints
    nodes = [node for node in seen.graph.graph.nodes if node.op == "placeholder"]
    texts = [_dimensions(node, ranges) for node in nodes]
    if all(text == "None" for text in texts):
        return ""
    return f"({', '.join(texts)},)"


def _dimensions(node: Node, ranges: Any) -> str:
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return "torch.export.Dim.DYNAMIC"
    if not isinstance(value, torch.Tensor):
        return "None"
    found: list[str] = []
    for dim, size in enumerate(value.shape):
        if isinstance(size, torch.SymInt):
            limits = ranges.get(size.node.expr)
            given = [] if limits is None else [f"min={int(limits.lower)}"]
            if limits is not None and limits.upper.is_finite:
                given.append(f"max={int(limits.upper)}")
            called = f"({', '.join(given)})" if given else ""
            found.append(f"{dim}: torch.export.Dim.DYNAMIC{called}")
    return f"{{{', '.join(found)}}}" if found else "None"


def _calls(seen: Seen, values: Values) -> Iterator[str]:
    yield "CALLS = ["
    for call in seen.calls:
        yield "    ("
        yield from (f"        {values.text(item, 8)}," for item in call)
        yield "    ),"
    yield "]"
    if seen.observes_state:
        yield "CALLS.append(CALLS[-1])  # shows the state that the last call left behind"
    if seen.changed:
        yield "# Inputs that are returned as the program leaves them, before its outputs."
    yield f"CHANGED = {seen.changed}\n"


def _bounds(seen: Seen, values: Values) -> Iterator[str]:
    """The bound of each value of each call, inputs that were changed first."""
    if seen.reference is None:
        return
    yield "# The largest error of each element that arithmetic in the program's dtype explains: how"
    yield "# far results spread when every operation errs by its rounding."
    yield "BOUNDS = ["
    for call, bounds in enumerate(seen.reference.bound):
        places = seen.reference.places[call]
        order = sorted(range(len(bounds)), key=lambda index: places[index].role != "input")
        yield "    ("
        for index in order:
            bound = bounds[index]
            yield f"        {'None' if bound is None else values.text(_rounded_up(bound), 8)},"
        yield "    ),"
    yield "]\n\n"


def _rounded_up(bound: torch.Tensor) -> torch.Tensor:
    """A bound in float32, no element smaller."""
    single = bound.float()
    above = torch.nextafter(single, torch.tensor(torch.inf))
    return torch.where(single.double() < bound, above, single)


def _main(seen: Seen, source: Source) -> Iterator[str]:
    mode = "contextlib.nullcontext" if source.has_branches else "Float64"
    yield "def main():"
    yield '    names = ("torch", "executorch")'
    yield '    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))'
    yield '    stage = "lower"'
    yield "    try:"
    yield "        model = make_model()"
    yield "        lowered = lower(model)"
    yield '        stage = "run"'
    yield "        actual = run(lowered)"
    yield "    except (CannotTry, ImportError) as error:"
    yield '        print(f"cannot be tried here: {error}")'
    yield "        return 2"
    yield "    except Exception as error:"
    if seen.phase is not None:
        yield f"        # Seen: {_plain(seen.error)[:80]}"
    yield f"        return failed(stage, error, {seen.phase!r})"
    if seen.reference is None:
        yield '    print("the defect is gone")'
        yield "    return 0\n\n"
    else:
        yield f"    wanted = expected(model, copy.deepcopy(model), {mode}, CALLS, CHANGED)"
        yield "    return judge(actual, wanted, BOUNDS)\n\n"
    yield 'if __name__ == "__main__":'
    yield "    sys.exit(in_child(main))" if seen.crashes else "    sys.exit(main())"
