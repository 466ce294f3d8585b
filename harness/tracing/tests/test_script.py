"""Scripts lower as the recipes do, and reproduce a defect without this project."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import dis
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

from harness import Case, Tester, UsageError
from harness.cli import script_option
from harness.model import registry
from harness.pipeline import stages
from harness.record.target import Target
from harness.tracing.script.tensor_text import ScriptTensors, format_literal
from harness.tracing.script.write import write_script

QUICK = (
    "portable:fp32",
    "portable:fp32+strict+preserve_ops+naive_memory+view_copies",
    "tosa:fp",
    "mlx:fp32",
)
NIGHTLY = (
    "xnnpack:int8",
    "xnnpack:fp32",
    "xnnpack:int8_per_tensor",
    "xnnpack:int8_dynamic",
    "xnnpack:int4",
    "tosa:int",
    "tosa:mxfp8_e4m3",
    "xnnpack:fp32+skip_dim_order+core_aten_exceptions+one_precision+transform_passes",
    "xnnpack:int8+inline_delegates+unplanned_io+per_op+operator_types",
    "xnnpack:int8_dynamic+dynamic_partitioner+layer_types",
    "xnnpack:int8_dynamic+merged_dynamic+symmetric_codes",
    "mlx:int4",
    "mlx:mxfp8",
    "mlx:nvfp4",
)
TARGETS = (*QUICK, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY))
ALLOWED = {"torch", "executorch", "torchao", "MLXPartitioner"} | set(sys.stdlib_module_names)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


LAYER = Case("layer", lambda: (Layer(), (torch.randn(4, 64),)))


def test_every_recipe_of_ours_has_a_script() -> None:
    for target in registry.known_targets():
        if target.backend not in ("null", "metal"):
            assert registry.recipe(target).script is not None, target


@pytest.mark.parametrize("target", TARGETS)
def test_a_script_lowers_to_the_bytes_of_its_recipe(target: str) -> None:
    tester = Tester(LAYER, target)
    recipe = tester.recipe
    script = recipe.script
    assert script is not None
    names: dict[str, Any] = {
        "EdgeCompileConfig": EdgeCompileConfig,
        "dataclasses": dataclasses,
        "torch": torch,
    }
    exec(script.preamble.replace("from __future__ import annotations", ""), names)
    exec("\n".join(script.imports), names)
    if recipe.quantize_weights is not None:
        tester.quantize_weights()
    exported = tester.export().exported
    if recipe.quantizer is not None:
        graph = stages.quantize(exported, eval(script.quantizer, names), tester.built.calls)
        exported = stages.export(graph, tester.built.inputs, strict=script.strict)
        tester.quantize()
    lowered = to_edge_transform_and_lower(
        exported,
        transform_passes=eval(script.transform_passes, names),
        partitioner=eval(script.partitioners, names),
        compile_config=eval(script.edge_config, names),
    )
    config = eval(script.backend_config, names) if script.backend_config else None
    program = bytes(lowered.to_executorch(config).buffer)
    assert program == tester.lower().to_executorch().serialize().program


def run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script without this project on its path."""
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", str(path)]
    return subprocess.run(
        command, cwd=folder, env=alone, capture_output=True, text=True, timeout=600, check=False
    )


def imported(path: Path) -> set[str]:
    """The packages that a script imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or ".").split(".")[0])
    return found


class Several(torch.nn.Module):
    """State, a changed input, symbolic sizes, names that are not identifiers, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU("tanh"))
        self.register_buffer("kept", torch.zeros(2, 8))
        self.table = torch.linspace(-1, 1, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor, scale: float) -> tuple[Any, ...]:
        self.kept.add_(x[:2])
        y.mul_(2)
        hidden = self.layers(x) * self.table
        return hidden.reshape(-1, 4) * scale, hidden.argmax(-1), self.kept + 1


def several(name: str = "several") -> Case:
    first = (torch.randn(4, 8), torch.randn(3), 0.5)
    return Case(
        name,
        lambda: (Several(), first),
        dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=8)}, None, None),
        calls=lambda: [(torch.randn(6, 8), torch.randn(3), 0.5)],
    )


@pytest.mark.nightly
def test_a_script_shows_a_defect_alone(tmp_path: Path) -> None:
    """XNNPACK computes tanh-gelu as exact gelu; on portable kernels the same model is right."""
    path = tmp_path / "shows.py"
    written = write_script(path, several(), "xnnpack:fp32")
    assert written.problem is not None
    assert (written.tensor_file, written.runtime_note) == (None, "")
    assert imported(path) <= ALLOWED
    assert "harness" not in path.read_text()
    ended = run(path, tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr[-2000:]
    assert "the defect shows" in ended.stdout
    assert "torch.ops.aten.gelu.default(" in path.read_text()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("target", "code"), [("portable:fp32", 0), ("tosa:fp", 0), ("xnnpack:int8", 0), ("mlx:fp32", 2)]
)
def test_a_script_of_a_fixed_defect_reports_that_it_is_gone(
    target: str, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "gone.py"
    case = several() if target == "portable:fp32" else LAYER
    written = write_script(path, case, target)
    assert written.problem is None
    ended = run(path, tmp_path)
    assert ended.returncode == code, ended.stdout + ended.stderr[-2000:]
    if code == 2:
        assert "the runtime has no MLXBackend; the program is in" in ended.stdout
        assert path.with_suffix(".pte").exists()
        assert "executed the payload with mlx.core" in path.read_text()


def list_undefined_names(source: str) -> set[str]:
    """The global names that a module or its functions read, and that it does not define."""

    def read(code: CodeType) -> Iterator[str]:
        for instruction in dis.get_instructions(code):
            if instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
                yield instruction.argval
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from read(constant)

    defined = set(dir(builtins)) | {"__name__", "__file__"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return set(read(compile(source, "script", "exec"))) - defined


@pytest.mark.parametrize(
    "target",
    ["xnnpack:int8", "tosa:fp", "tosa:int+io", "xnnpack:fp32+unplanned_io", "cortex_m:int8"],
)
def test_a_script_defines_the_names_that_it_uses(target: str, tmp_path: Path) -> None:
    path = tmp_path / "names.py"
    write_script(path, LAYER, target)
    assert not list_undefined_names(path.read_text())
    exec(path.read_text(), {"__name__": "script", "__file__": str(path)})  # in their order
    assert list_undefined_names("def f():\n    return [missing(x) for x in y]") == {"missing", "y"}


def test_a_script_calibrates_with_the_inputs_of_the_case(tmp_path: Path) -> None:
    path = tmp_path / "calibrated.py"
    inputs = LAYER.make(1).inputs
    case = dataclasses.replace(LAYER, calibration=lambda: [inputs])
    write_script(path, case, "xnnpack:int8")
    text = path.read_text()
    assert "for call in CALIBRATION:" in text
    assert not list_undefined_names(text)
    # A float recipe calibrates nothing.
    write_script(path, case, "xnnpack:fp32")
    assert "CALIBRATION" not in path.read_text()


class Clamped(torch.nn.Module):
    """XNNPACK fuses the clamp into the layer, which rounds once instead of twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).clamp(max=0.2) + x


@pytest.mark.nightly
def test_a_script_does_not_show_an_error_of_all_elements_together(tmp_path: Path) -> None:
    recipe = registry.recipe(Target("xnnpack", "int8"))
    exact = dataclasses.replace(recipe.precision, fused_clamps=frozenset())
    case = Case("clamped", lambda: (Clamped(), (torch.randn(50, 6),)))
    path = tmp_path / "joint.py"
    written = write_script(
        path, case, "xnnpack:int8", recipe=dataclasses.replace(recipe, precision=exact)
    )
    assert "codes are not the quantized graph's" in (written.problem or "")
    ended = run(path, tmp_path)
    assert ended.returncode == 2, ended.stdout + ended.stderr[-2000:]
    assert "this script compares element by element" in ended.stdout


def test_a_script_that_fails_does_not_show_a_defect(tmp_path: Path) -> None:
    path = tmp_path / "fails.py"
    path.write_text("undefined")
    code, lines = script_option._run(path)
    assert code not in script_option._MEANINGS
    assert "NameError" in lines[-1]


@pytest.mark.nightly
def test_failures_that_no_script_can_show(tmp_path: Path) -> None:
    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    raising = Case("raises", lambda: (Raises(), (torch.ones(2),)))
    with pytest.raises(UsageError, match="has no graph to write"):
        write_script(tmp_path / "a.py", raising, "portable:fp32")
    recipe = dataclasses.replace(registry.recipe(Target("portable", "fp32")), script=None)
    with pytest.raises(UsageError, match=r"Recipe\.script"):
        write_script(tmp_path / "b.py", LAYER, "portable:fp32", recipe=recipe)
    with pytest.raises(UsageError, match="cannot write the script"):
        write_script(tmp_path / "no" / "c.py", LAYER, "portable:fp32")


VALUES = (
    torch.tensor([1.5, -0.0, torch.inf, torch.nan]),
    torch.randn(100),
    torch.randn(3, 40, dtype=torch.bfloat16),
    torch.randint(0, 255, (70,), dtype=torch.uint8),
    torch.tensor([True, False] * 40),
    torch.zeros(3, 4),
    torch.full((50,), -0.0),
    torch.empty(0, 3),
    torch.tensor(7),
    torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    torch.randn(4, 30).T,
    torch.randn(30).to(torch.float8_e4m3fn),
    torch.randn(40, dtype=torch.complex64),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{list(value.shape)}")
def test_a_tensor_is_the_same_out_of_its_text(value: torch.Tensor) -> None:
    from harness.tracing.script.support_code import unpack

    made = eval(ScriptTensors().format(value), {"torch": torch, "unpack": unpack})
    assert (made.dtype, made.shape, made.stride()) == (value.dtype, value.shape, value.stride())
    bits = [each.contiguous().reshape(-1).view(torch.uint8) for each in (made, value)]
    assert torch.equal(*bits)


def test_large_tensors_are_written_to_a_separate_file() -> None:
    values = ScriptTensors()
    tensors = [torch.randn(2**17) for _ in range(3)]
    texts = [values.format(tensor) for tensor in tensors]
    beside = [int(text.removeprefix("TENSORS['v").removesuffix("']")) for text in texts
              if text.startswith("TENSORS")]  # fmt: skip
    # The script contains tensors up to the limit, the separate file the rest.
    assert beside == list(range(len(values.external)))
    assert len(beside) > 0
    assert 0 < values.inline <= 2**20
    kept = [tensor for tensor, text in zip(tensors, texts, strict=True) if "TENSORS" in text]
    assert all(map(torch.equal, kept, values.external.values()))


def test_numbers_are_the_same_out_of_their_text() -> None:
    for value in (1, 0.1, None, "a'b", torch.float16, [1.5, (2,)], -torch.inf, 1 - 2j):
        made = eval(format_literal(value), {"torch": torch})
        assert made == value
        assert type(made) is type(value)
