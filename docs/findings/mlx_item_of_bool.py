"""MLX's ItemIntNode reads four bytes of a bool, which has one byte."""

import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch
from common import CannotTry, Observation, main
from mlx_package import content, install

# exec_item_int (backends/mlx/runtime/MLXInterpreter.h) calls item<int>() on its operand.
PROGRAM = """
#include <iostream>
#include "mlx/mlx.h"
int main() {
  using namespace mlx::core;
  array four({false, true, true, true}, bool_);
  array x = reshape(slice(four, {0}, {1}), {});
  eval(x);
  std::cout << x.item<int>();
}
"""


class Sample(torch.nn.Module):
    def forward(self, logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        return torch.ops.mlx.sample(logits, temperature, torch.tensor(0), torch.tensor(1.0))


def reads_of_bools() -> list[str]:
    """Comparisons of the lowered program whose bool result an ItemIntNode reads."""
    install()
    from executorch.backends.mlx import custom_ops  # noqa: F401

    written: dict[int, str] = {}
    reads = []
    for each in content(Sample(), (torch.randn(1, 8), torch.tensor(1.0)))["instructions"]:
        if each["op_name"] == "ItemIntNode":
            reads.append(written.get(each["x"]["tid"], "an input"))
        elif "tid" in (each.get("out") or {}):
            written[each["out"]["tid"]] = each["op_name"]
    return [name for name in reads if "Equal" in name or "Less" in name or "Greater" in name]


def item_of_false() -> int:
    """Run mlx's own C++: ``item<int>()`` of a false with true in the next bytes."""
    found = find_spec("mlx")
    root = Path(next(iter(found.submodule_search_locations))) if found else Path()
    if not (root / "include" / "mlx" / "array.h").exists():
        raise CannotTry("mlx with its headers is not installed")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "item.cpp", Path(folder) / "item"
        source.write_text(PROGRAM)
        library = str(root / "lib")
        command = ["c++", "-std=c++20", str(source), f"-I{root / 'include'}", f"-L{library}"]
        command += ["-lmlx", f"-Wl,-rpath,{library}", "-o", str(program)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CannotTry(f"no C++ compiler that takes mlx's headers: {error}") from error
        return int(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def observe() -> Observation:
    reads, value = reads_of_bools(), item_of_false()
    print(f"item<int>() of a false bool: {value}")
    return Observation(
        "mlx::sample converts a comparison's result before ItemIntNode reads it",
        f"ItemIntNode reads the results of {reads}; a false one is read as {value}",
        wrong=bool(reads) and value != 0,
    )


if __name__ == "__main__":
    main(observe)
