"""Code that is copied into scripts: it executes delegate calls with Arm's command line tools."""

import importlib.util
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy
import torch


def find_vgf_tool(package: str, name: str) -> Path:
    """Return a program of a package of Arm's ML SDK."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"there is no {package}; pip install it, 0.11 or later")
    return Path(spec.origin).parent / "binaries" / "bin" / name


def make_vgf_environment() -> dict[str, str]:
    """Return the variables of a process that uses the emulation layers on lavapipe."""
    spec = importlib.util.find_spec("emulation_layer")
    drivers = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if spec is None or spec.origin is None or not drivers:
        raise ImportError("there is no ai_ml_emulation_layer_for_vulkan, or no mesa-vulkan-drivers")
    deployed = Path(spec.origin).parent / "deploy"
    layers = deployed / "share" / "vulkan" / "explicit_layer.d"
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{deployed / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "VK_LAYER_PATH": f"{layers / 'VkLayer_Graph.json'}:{layers / 'VkLayer_Tensor.json'}",
        "VK_INSTANCE_LAYERS": "VK_LAYER_ML_Graph_Emulation:VK_LAYER_ML_Tensor_Emulation",
        "VK_ICD_FILENAMES": str(drivers[0]),
    }


def provide_converter() -> None:
    """Let Arm's lowering start the converter of the installed package."""
    converter = find_vgf_tool("model_converter", "model-converter")
    os.environ.setdefault("MODEL_CONVERTER_PATH", str(converter))


def run_vgf(payload: bytes, inputs: Any, expected: Any) -> list[torch.Tensor]:
    """Execute a payload once.

    Args:
        payload: the bytes of the VGF.
        inputs: its inputs.
        expected: tensors with the dtypes and shapes of its outputs.
    """
    with tempfile.TemporaryDirectory() as folder:
        vgf, scenario = Path(folder, "payload.vgf"), Path(folder, "scenario.json")
        vgf.write_bytes(payload)
        dump = find_vgf_tool("vgf_lib", "vgf_dump")
        template = [str(dump), "--input", str(vgf), "--scenario-template"]
        text = subprocess.run(template, check=True, capture_output=True).stdout
        found = json.loads(text)
        given, results = iter(inputs), []
        for resource in found["resources"]:
            if "graph" in resource:
                resource["graph"]["src"] = str(vgf)
                continue
            tensor = resource["tensor"]
            file = Path(folder, f"{tensor['uid']}.npy")
            if tensor["shader_access"] == "readonly":
                tensor["src"] = str(file)
                value = next(given)
                memory = value.permute(value.dim_order()).contiguous()
                if memory.dtype == torch.bfloat16:
                    memory = memory.view(torch.uint16)
                numpy.save(file, memory.numpy().reshape(tensor["dims"]))
            else:
                tensor["dst"] = str(file)
                results.append(file)
        scenario.write_text(json.dumps(found))
        runner = find_vgf_tool("scenario_runner", "scenario-runner")
        command = [str(runner), "--scenario", str(scenario), "--output", folder]
        subprocess.run(command, check=True, capture_output=True, env=make_vgf_environment())
        outputs = []
        for file, like in zip(results, expected, strict=True):
            order = like.dim_order()
            memory = torch.from_numpy(numpy.load(file)).view(like.dtype)
            shaped = memory.reshape([like.shape[dim] for dim in order])
            outputs.append(shaped.permute([order.index(dim) for dim in range(len(order))]))
        return outputs


def emulate_delegates() -> Any:
    """Return a context manager that executes delegate calls of a graph on the emulation layers."""
    from executorch.exir.delegate import executorch_call_delegate
    from torch.overrides import TorchFunctionMode

    class EmulatedDelegates(TorchFunctionMode):
        """Executes delegate calls of a lowered graph."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            """Run one call."""
            if func is not executorch_call_delegate:
                return func(*args, **(kwargs or {}))
            module, *inputs = args
            node = module.original_module.graph.output_node()
            return run_vgf(module.processed_bytes, inputs, [x.meta["val"] for x in node.args[0]])

    return EmulatedDelegates()
