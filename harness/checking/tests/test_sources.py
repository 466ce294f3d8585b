"""Models are loaded from all spellings, and every error is one line."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

from harness.checking import model_sources
from harness.errors import ConformError
from harness.model.case import Call


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("my_model.py:build", "my_model.build"),
        ("my_model.py:Net", "my_model.Net"),
        ("my_model.py:Attribute", "my_model.Attribute"),
        ("my_model.py:instance", "my_model.instance"),
        ("my_model.py:program", "my_model.program"),
        ("my_model:build", "my_model.build"),
    ],
)
def test_a_model_comes_with_its_inputs(folder: Path, spec: str, name: str) -> None:
    subject = model_sources.load_model(spec)
    assert subject.name == name
    assert len(subject.sets) == 1
    given = subject.sets[0].given
    assert isinstance(given, tuple)
    assert subject.module(*given).shape == (given[0].shape[0], 4)


@pytest.mark.parametrize(("name", "args"), [("by_name", 0), ("both", 1)])
def test_inputs_may_have_names(folder: Path, name: str, args: int) -> None:
    given = model_sources.load_model(f"my_model.py:{name}").sets[0].given
    assert isinstance(given, Call)
    assert len(given.args) == args
    assert "scale" in given.kwargs


def test_weights_and_inputs_depend_on_the_seed_alone(folder: Path) -> None:
    first, again, other = (
        model_sources.load_model("my_model.py:build", seed=seed) for seed in (1, 1, 2)
    )
    weights = [subject.module.state_dict()["head.weight"] for subject in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(first.sets[0].given[0], again.sets[0].given[0])  # type: ignore[index]


def test_values_that_a_file_draws_when_it_is_imported_depend_on_the_seed_alone(
    folder: Path,
) -> None:
    (folder / "drawn.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    example_inputs = (torch.randn(3),)\n"
        "    def forward(self, x):\n"
        "        return x + 1\n"
    )

    def draw(seed: int) -> list[float]:
        torch.randn(5)  # another state of the process' generator
        return model_sources.load_model("drawn.py:Net", seed=seed).sets[0].given[0].tolist()

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)


def test_files_are_sets_of_inputs_instead_of_the_own(folder: Path) -> None:
    numpy.save("one.npy", numpy.ones((4, 6), "float32"))
    torch.save((torch.zeros(2, 6),), "two.pt")
    subject = model_sources.load_model("my_model.py:alone", [Path("one.npy"), Path("two.pt")])
    assert [one.label for one in subject.sets] == ["one.npy", "two.pt"]
    assert [tuple(one.given[0].shape) for one in subject.sets] == [(4, 6), (2, 6)]  # type: ignore[index]


def test_an_exported_file_is_a_module_with_its_own_inputs(folder: Path) -> None:
    net = model_sources.load_model("my_model.py:build").module.eval()
    inputs = (torch.randn(4, 6),)
    torch.export.save(torch.export.export(net, inputs), "net.pt2")
    subject = model_sources.load_model("net.pt2")
    assert subject.name == "net"
    given = subject.sets[0].given
    assert torch.equal(given[0], inputs[0])  # type: ignore[index]
    assert torch.equal(subject.module(*given), net(*inputs))
    assert subject.dynamic_shapes is None


_HAS = "my_model.py has Net, Attribute, Branching, Named, build, by_name"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("my_modle.py:build", "there is no file my_modle.py; did you mean my_model.py?"),
        ("no/such/folder.py:build", "there is no folder no/such"),
        ("my_model.py", f"name a function or module in it, my_model.py:NAME; {_HAS}"),
        ("my_model.py:buidl", f"nothing named 'buidl'; did you mean 'build'? {_HAS}"),
        ("my_model.py:LIMIT", "is of type int; check takes a function or a module"),
        ("my_model.py:number", "returns int; it must return a module, (module, inputs)"),
        ("my_model.py:odd_inputs", "a tensor or a dict by name, not int"),
        ("my_model.py:needs", "needs width; name a function that needs no arguments"),
        ("my_model.py:raises", "ValueError: no weights here, at "),
        ("my_model.py:leaves", "it exits (4), at "),
        ("my_model.py:alone", "has no inputs: return (module, inputs)"),
        ("no.such.module:build", "no.such.module does not import: ModuleNotFoundError"),
        ("broken.py:build", "SyntaxError: "),
        ("imports.py:build", "No module named 'no_such_package', at "),
        ("nowhere.pt2", "there is no file nowhere.pt2"),
        ("cut.pt2", "cut.pt2 is not a complete program of torch.export.save"),
    ],
)
def test_a_source_without_a_model_is_a_one_line_error(folder: Path, spec: str, said: str) -> None:
    (folder / "broken.py").write_text("def build(:\n    pass\n")
    (folder / "imports.py").write_text("import no_such_package\n")
    (folder / "cut.pt2").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ConformError) as caught:
        model_sources.load_model(spec)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_of_theirs_is_named(folder: Path) -> None:
    with pytest.raises(ConformError, match=r'my_model\.py:\d+: raise ValueError\("no weights'):
        model_sources.load_model("my_model.py:raises")


def test_a_file_finds_the_files_beside_it(folder: Path) -> None:
    (folder / "beside.py").write_text("WIDTH = 6\n")
    (folder / "uses.py").write_text(
        "import torch, beside\n"
        "def build():\n"
        "    return torch.nn.Linear(beside.WIDTH, 2), torch.randn(3, beside.WIDTH)\n"
    )
    assert model_sources.load_model("uses.py:build").sets[0].given[0].shape == (3, 6)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "name"), [("a b@c[0]", "a_b_c_0"), ("my.model", "my.model"), ("@", "model")]
)
def test_any_text_makes_the_name_of_a_case(text: str, name: str) -> None:
    assert model_sources.case_name(text) == name
