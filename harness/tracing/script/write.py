"""Writes a cell as a Python script that reproduces it.

The script exits with 1 when the defect shows, 0 when it is gone and 2 when it cannot be tried.
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
from harness.tracing.script.graph import ModuleSource
from harness.tracing.script.recorded_cell import RecordedCell
from harness.tracing.script.tensor_text import TENSORS, ScriptTensors
from harness.tracing.trial import ProgressCallback, TrialRunner


@dataclass(frozen=True)
class WrittenScript:
    """A script that was written.

    Attributes:
        path: the script.
        tensor_file: the file with its long tensors, or None.
        problem: the problem of the cell; None for a green one, whose script prints "gone".
        runtime_note: how this project executed the program instead of the native runtime; may be
            empty.
    """

    path: Path
    tensor_file: Path | None
    problem: str | None
    runtime_note: str


def write_script(
    path: Path,
    case: Case,
    target: Target | str,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    backend: Backend | None = None,
    about: Sequence[str] = (),
    on_progress: ProgressCallback | None = None,
) -> WrittenScript:
    """Write a case on a target as a script that needs only torch and executorch.

    Args:
        path: the file; long tensors go to a file of the same name that ends in ``.pt``.
        case: the case.
        target: ``backend:recipe``.
        seed: run seed.
        recipe: replaces the recipe that the target names.
        backend: replaces the backend that the target names.
        about: paragraphs to add to the script's docstring.
        on_progress: called with a line of text for each step.

    Raises:
        UsageError: the case has no graph, its recipe no script, or the file cannot be written.
    """
    runner = TrialRunner(case, target, seed, recipe, backend, on_progress, isolate=True)
    if runner.recipe.script is None:
        raise UsageError(
            f"cannot write a script for {runner.target}: its recipe does not say how it lowers "
            f"without this harness; set Recipe.script"
        )
    runner.on_progress("running the program")
    cell = RecordedCell.capture(runner)
    values = ScriptTensors()
    text = _text(cell, runner.recipe.script, values, about)
    beside = path.with_suffix(".pt") if values.external else None
    try:
        path.write_text(text)
        if beside is not None:
            torch.save(values.external, beside)
    except OSError as error:
        raise UsageError(f"cannot write the script to {path}: {error.strerror}") from error
    return WrittenScript(path, beside, cell.problem, cell.runtime_note)


def _text(cell: RecordedCell, script: Script, values: ScriptTensors, about: Sequence[str]) -> str:
    source = ModuleSource(values)
    source.add_class(cell.graph, "Model")
    # The model comes first, then how it is lowered and run; data and helpers follow.
    shown = [*source.lines, *_write_lowering(cell, script)]
    data = [*_call_data(cell, values), *_bound_data(cell, values), *_main_code(cell, source)]
    if values.external:
        data.insert(0, f'{TENSORS} = torch.load(Path(__file__).with_suffix(".pt"))')
    body = "\n".join(
        [*shown, *(f"\n\n{piece}" for piece in _find_support_code([*shown, *data])), "\n", *data]
    )
    preamble = _strip_header(script.preamble)
    imports = [*_imports(body + preamble), *_registration_imports(source)]
    if preamble:  # MLX's modules can be imported behind it only
        imports += ["\n", preamble, ""]
    own = [line for line in script.imports if _is_used(line, body + preamble)]
    parts = [*_write_docstring(cell, about), *imports, *own, "\n", body]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts)).rstrip() + "\n"


def _write_docstring(cell: RecordedCell, about: Sequence[str]) -> Iterator[str]:
    runner = cell.runner
    observed = cell.problem or "nothing is wrong"
    runtime = runner.backend.availability().runtime
    lines = [
        f"Case {runner.case.name}, seed {runner.seed}. Observed ({runtime} runtime): {observed}",
        *about,
    ]
    if cell.runtime_note:
        lines.append(f"Not observed with the native runtime: {cell.runtime_note}.")
        if delegate := runner.recipe.script.delegate if runner.recipe.script else "":
            lines.append(
                f"This script lowers with the vendor's code. A runtime that has {delegate} "
                f"executes the program; without it the script saves the program and exits with 2."
            )
    yield f'"""{_escape(f"{runner.case.op} on {runner.target}")}'
    for line in lines:
        yield ""
        yield from textwrap.wrap(_escape(line), 98)
    versions = (f"{name} {metadata.version(name)}" for name in ("torch", "executorch"))
    yield ""
    yield f"Written with {', '.join(versions)}."
    yield ""
    yield "Exit code: 1 the defect shows, 0 the defect is gone, 2 it cannot be tried here."
    yield '"""\n'


def _escape(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''")


# Modules that a script imports when it uses them, standard library first.
_STANDARD = """
base64 contextlib copy dataclasses importlib.metadata importlib.util io logging math operator shutil
subprocess sys tempfile warnings zlib
""".split()
_NAMED = (
    ("from collections.abc import Callable", "Callable"),
    ("from importlib.machinery import PathFinder", "PathFinder"),
    ("from pathlib import Path", "Path"),
    ("from typing import Any", "Any"),
)


def _imports(text: str) -> Iterator[str]:
    """Return the import statements that a text needs."""
    text += "logging.x warnings.x"
    yield from (f"import {name}" for name in _STANDARD if re.search(rf"\b{name}\.\w", text))
    yield from (line for line, name in _NAMED if re.search(rf"\b{name}\b", text))
    yield '\nwarnings.simplefilter("ignore")'
    yield "logging.disable(logging.WARNING)  # warnings of other packages\n"
    yield "import torch"
    yield "from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower"
    if "TorchDispatchMode" in text:
        yield "from torch.utils._python_dispatch import TorchDispatchMode"
    yield "from torch.utils._pytree import tree_map"
    if "move_exported_model_to_eval" in text:
        yield "from torchao.quantization.pt2e import move_exported_model_to_eval"
    for prepare in ("prepare_pt2e", "prepare_qat_pt2e"):
        if f"{prepare}(" in text:
            yield f"from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, {prepare}"


def _is_used(line: str, text: str) -> bool:
    """Whether a text uses a name that a statement imports.

    A statement that imports a whole module is always kept, for the module's side effects.
    """
    names = line.partition(" import ")[2]
    return not names or any(re.search(rf"\b{name.strip()}\b", text) for name in names.split(","))


def _registration_imports(source: ModuleSource) -> Iterator[str]:
    if "quantized_decomposed" in source.namespaces:
        yield "import torch.ao.quantization.fx._decomposed  # registers operators"


def _find_support_code(lines: Sequence[str]) -> list[str]:
    """Return the functions that a script uses, directly or indirectly."""
    found: dict[str, str] = {}
    text = "\n".join(lines)
    for _ in support_code.PIECES:
        for piece in support_code.PIECES:
            if piece.__name__ not in found and re.search(rf"\b{piece.__name__}\b", text):
                lines = inspect.getsource(piece).split("\n")
                found[piece.__name__] = "\n".join(x.partition("  # type:")[0] for x in lines)
                text += found[piece.__name__]
    return [found[piece.__name__] for piece in support_code.PIECES if piece.__name__ in found]


def _strip_header(text: str) -> str:
    """Return the source of a module without docstring and imports."""
    lines = text.split("\n")
    starts = (n for n, line in enumerate(lines) if line.startswith(("def ", "class ", "@")))
    first = next(starts, None)
    return "" if first is None else "\n" + "\n".join(lines[first:]).strip() + "\n"


def _write_lowering(cell: RecordedCell, script: Script) -> Iterator[str]:
    shapes = _dynamic_shapes(cell)
    dynamic = f", dynamic_shapes={shapes}" if shapes else ""
    yield "def export(module):"
    strict = ", strict=True" if script.strict else ""
    yield f"    return torch.export.export(module, CALLS[0]{dynamic}{strict})\n\n"
    yield "def make_model():"
    if cell.runner.recipe.quantizer is None:
        yield "    return Model().eval()\n\n"
    else:
        number = len(cell.tester.built.calls)
        yield "    exported = export(Model().eval())"
        yield "    module = exported.module(check_guards=False)"
        prepare = "prepare_qat_pt2e" if script.qat else "prepare_pt2e"
        yield f"    prepared = {prepare}(module, {script.quantizer})"
        if script.qat:
            yield "    move_exported_model_to_eval(prepared)  # as after training"
        calls = "CALIBRATION" if cell.calibration else f"CALLS[:{number}]"
        yield f"    for call in {calls}:"
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
        f"program = bytes(lowered.to_executorch({script.backend_config}).buffer)\n"
        f'return execute(program, CALLS, {script.delegate!r}, Path(__file__).with_suffix(".pte"))'
    )
    yield textwrap.indent((script.run or native).strip(), "    ")
    yield "\n"


def _dynamic_shapes(cell: RecordedCell) -> str:
    """Return the dynamic dimensions of the flat inputs as text; empty where all are static."""
    if cell.runner.case.dynamic_shapes is None:
        return ""
    ranges = cell.tester.exported.range_constraints
    nodes = [node for node in cell.graph.graph.nodes if node.op == "placeholder"]
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


def _call_data(cell: RecordedCell, values: ScriptTensors) -> Iterator[str]:
    named = {"CALIBRATION": cell.calibration, "CALLS": cell.calls}
    for name, calls in named.items():
        if not calls or (name == "CALIBRATION" and cell.runner.recipe.quantizer is None):
            continue
        yield f"{name} = ["
        for call in calls:
            yield "    ("
            yield from (f"        {values.format(item, 8)}," for item in call)
            yield "    ),"
        yield "]"
    if cell.observes_state:
        yield "CALLS.append(CALLS[-1])  # repeats the last call to observe the state it left"
    if cell.changed_inputs:
        yield "# Positions of inputs that the program changes; compared before its outputs."
    yield f"CHANGED = {cell.changed_inputs}\n"


def _bound_data(cell: RecordedCell, values: ScriptTensors) -> Iterator[str]:
    """Write the bound of each value of each call, changed inputs first."""
    if cell.reference is None:
        return
    yield "# Bound of each element: largest error that rounding in the program's dtype explains."
    yield "BOUNDS = ["
    for call, bounds in enumerate(cell.reference.bound):
        places = cell.reference.places[call]
        order = sorted(range(len(bounds)), key=lambda index: places[index].role != "input")
        yield "    ("
        for index in order:
            bound = bounds[index]
            yield f"        {'None' if bound is None else values.format(_round_up(bound), 8)},"
        yield "    ),"
    yield "]\n\n"


def _round_up(bound: torch.Tensor) -> torch.Tensor:
    """Return a bound in float32, with no element smaller."""
    single = bound.float()
    above = torch.nextafter(single, torch.tensor(torch.inf))
    return torch.where(single.double() < bound, above, single)


def _main_code(cell: RecordedCell, source: ModuleSource) -> Iterator[str]:
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
    if cell.failing_phase is not None:
        yield f"        # Observed: {_escape(cell.error)[:76]}"
    yield f"        return report_failure(stage, error, {cell.failing_phase!r})"
    if cell.reference is None:
        yield '    print("the defect is gone")'
        yield "    return 0\n\n"
    else:
        yield f"    wanted = compute_expected(model, copy.deepcopy(model), {mode}, CALLS, CHANGED)"
        if cell.is_joint:
            yield "    if compare_all(actual, wanted, BOUNDS) == 0:"
            yield '        print("cannot be tried here: all errors together exceed their limit, "'
            yield '              "and this script compares element by element")'
            yield "        return 2"
            yield "    return 1\n\n"
        else:
            yield "    return compare_all(actual, wanted, BOUNDS)\n\n"
    yield 'if __name__ == "__main__":'
    yield "    sys.exit(run_in_child_process(main))" if cell.is_crash else "    sys.exit(main())"
