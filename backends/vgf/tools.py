"""Find Arm's tools and the Vulkan driver: converter, emulation layers, runner, Mesa's lavapipe.

The tools are programs and libraries inside Python packages, which need not be on PATH. A check
imports none of them, so that it costs milliseconds.
"""

from __future__ import annotations

import ctypes.util
import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import msgspec

from harness.backend_api import has_module
from harness.vendors.replacements import AttributeReplacer

PACKAGES = (
    "ai_ml_sdk_model_converter",
    "ai_ml_emulation_layer_for_vulkan",
    "ai_ml_sdk_scenario_runner",
    "ai_ml_sdk_vgf_library",
)
"""The distributions of Arm's ML SDK that the backend needs."""

INSTALL_PACKAGES = 'pip install "executorch-conform[vgf]"'
INSTALL_DRIVER = "apt-get install mesa-vulkan-drivers libvulkan1"

_DRIVER_FOLDERS = ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
# The graph layer calls the tensor layer, so it comes first. The loader of Debian 12 (1.3.239)
# ignores the order of VK_INSTANCE_LAYERS and takes the order in which it finds manifests.
_LAYERS = {"VK_LAYER_ML_Graph_Emulation": "Graph", "VK_LAYER_ML_Tensor_Emulation": "Tensor"}
_START_SECONDS = 20.0


def find_tool(package: str, name: str) -> Path | None:
    """Return the path of a program inside a package, or None.

    Args:
        package: module name of the package.
        name: file name of the program.
    """
    folder = _find_package(package)
    tool = None if folder is None else folder / "binaries" / "bin" / name
    return tool if tool is not None and tool.is_file() else None


@functools.cache
def find_converter_problem() -> str:
    """Return why programs cannot be lowered here, and what to install; empty if they can."""
    converter = _find_own_converter() or find_tool("model_converter", "model-converter")
    if converter is None:
        return f"Arm's model converter is not installed: {INSTALL_PACKAGES}"
    try:
        started = subprocess.run(
            [converter, "--version"], capture_output=True, text=True, timeout=_START_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{converter} does not start: {error}"
    if started.returncode:
        # A wheel of 0.10.0 or older needs glibc 2.38, whatever its tag says.
        words = (started.stderr or started.stdout).strip().splitlines() or ["no output"]
        return f"{converter} does not start ({words[-1]}): {INSTALL_PACKAGES}"
    return ""


@functools.cache
def find_execution_problem() -> str:
    """Return why payloads cannot be executed here, and what to install; empty if they can."""
    lacking = [
        name
        for name, is_there in (
            ("ai_ml_emulation_layer_for_vulkan", _find_layers() is not None),
            ("ai_ml_sdk_scenario_runner 0.11 or later", has_module("scenario_runner_py")),
            ("ai_ml_sdk_vgf_library", find_tool("vgf_lib", "vgf_dump") is not None),
        )
        if not is_there
    ]
    if lacking:
        return f"not installed: {', '.join(lacking)}: {INSTALL_PACKAGES}"
    if ctypes.util.find_library("vulkan") is None:
        return f"there is no Vulkan loader (libvulkan.so.1): {INSTALL_DRIVER}"
    if find_driver() is None:
        return f"there is no manifest of Mesa's lavapipe (lvp_icd*.json): {INSTALL_DRIVER}"
    return ""


@functools.cache
def find_driver() -> Path | None:
    """Return the manifest of Mesa's lavapipe for this processor, or None."""
    names = (f"lvp_icd.{platform.machine()}.json", "lvp_icd.json")
    candidates = (Path(folder) / name for folder in _DRIVER_FOLDERS for name in names)
    return next(filter(Path.is_file, candidates), None)


@functools.cache
def describe_driver() -> str:
    """Return lavapipe's version, such as ``lavapipe of Mesa 22.3.6``; empty if there is none."""
    manifest = find_driver()
    if manifest is None:
        return ""
    try:
        library = Path(msgspec.json.decode(manifest.read_bytes())["ICD"]["library_path"])
        found = re.search(rb"Mesa (\d+\.\d+\.\d+[\w.-]*)", library.read_bytes())
    except (OSError, KeyError, TypeError, msgspec.MsgspecError):
        found = None
    return f"lavapipe of Mesa {found[1].decode() if found else '(unknown version)'}"


def make_environment() -> dict[str, str]:
    """Return the variables of a process that executes on the emulation layers and lavapipe.

    Raises:
        RuntimeError: something is missing; see :func:`find_execution_problem`.
    """
    layers, driver = _find_layers(), find_driver()
    if layers is None or driver is None:
        raise RuntimeError(find_execution_problem())
    libraries = [str(layers / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "VK_LAYER_PATH": os.pathsep.join(str(_manifest(layers, name)) for name in _LAYERS.values()),
        "VK_INSTANCE_LAYERS": os.pathsep.join(_LAYERS),
        # Loaders before 1.3.207 read the second one only.
        "VK_DRIVER_FILES": str(driver),
        "VK_ICD_FILENAMES": str(driver),
        # Otherwise each of several workers starts a thread for each processor.
        "LP_NUM_THREADS": "1",
    }


def provide_converter() -> None:
    """Let Arm's lowering start the converter of the installed package if PATH has none.

    Arm looks for it on PATH and in ``MODEL_CONVERTER_PATH``; a virtual environment that is not
    activated is not on PATH.
    """
    from executorch.backends.arm.vgf import backend as vendor

    packaged = find_tool("model_converter", "model-converter")
    name = "require_model_converter_executable"
    if packaged is None or _find_own_converter() is not None:
        return
    if getattr(vendor, name, None) is not _return_path(packaged):
        AttributeReplacer("vgf.converter")(vendor, name, _return_path(packaged))


@functools.cache
def _return_path(path: Path) -> Callable[[], Path]:
    return lambda: path


def _find_own_converter() -> Path | None:
    """Return the converter that Arm's lowering finds without help, or None.

    The rule is find_model_converter_binary in executorch's backends/arm/vgf/model_converter.py,
    which takes seconds to import.
    """
    named = os.environ.get("MODEL_CONVERTER_PATH", "")
    if os.path.isfile(named) and os.access(named, os.X_OK):
        return Path(named)
    found = shutil.which("model-converter") or shutil.which("model_converter")
    return None if found is None else Path(found)


@functools.cache
def _find_layers() -> Path | None:
    """Return the folder that has the emulation layers below ``lib`` and ``share``, or None."""
    folder = _find_package("emulation_layer")
    deployed = None if folder is None else folder / "deploy"
    if deployed is None or not all(_manifest(deployed, n).is_file() for n in _LAYERS.values()):
        return None
    return deployed


def _manifest(deployed: Path, name: str) -> Path:
    return deployed / "share" / "vulkan" / "explicit_layer.d" / f"VkLayer_{name}.json"


def _find_package(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
