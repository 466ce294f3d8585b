"""Execute a generated program on the CPU, as the Metal runtime would on a device.

Inputs and outputs follow ``backends/apple/metal/runtime/metal_backend.cpp``, constants follow
torch's ``aoti_runtime/model_base.h``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from backends.metal.contract.layout import extent, row_major
from backends.metal.cpp.syntax import UnknownFunction, WrapperError
from backends.metal.cpp.wrapper import ConstantInfo, Wrapper
from backends.metal.host import Library
from backends.metal.machine import memory, values
from backends.metal.machine.calls import Check, Fallback, MachineCall
from backends.metal.machine.encoder import SHADER_SHIMS, Encoder
from backends.metal.machine.headers import HEADERS
from backends.metal.machine.memory import CPU, MPS, Storage, Tensor
from backends.metal.machine.shims import NUMBERS, SHIMS, BadCall, copy_, create_tensor_from_blob_v2
from backends.metal.machine.statements import WrapperInterpreter
from backends.metal.machine.values import UNSET, Host, Owner, Pointer

# The wrapper's function that compares the inputs with the traced inputs.
INPUT_CHECKS = "__check_inputs_outputs"


class Machine:
    """A loaded program.

    Constants live as long as the machine; writes to them persist between calls.

    Args:
        program: the parsed wrapper.
        kernels: Metal source by the name of its library.
        constants: values of the constants in the program's order; copied.
        mutated: names of constants that the code writes to; the contract treats them as buffers.
        checked: report bad accesses and races in kernels, and results of fallback kernels whose
            layout differs from the code's assumption.
        check_inputs: report inputs that differ from the traced ones. On a device, both of AOTI's
            own checks run only with ``AOTI_RUNTIME_CHECK_INPUTS=1``.
        check: called before each call; may raise. If it does not raise, a call that breaks the
            contract is executed as the code intends: tensors have the layout that the code assumes,
            and a view is no copy.
        fallbacks: kernels of the runtime, by the C function's name.
        substitute: returns a replacement of ``fallbacks`` for a call that breaks the contract, if
            ``check`` did not raise.

    Raises:
        ProgramError: sources or constants do not fit the program.
    """

    def __init__(
        self,
        program: Wrapper,
        kernels: Mapping[str, str],
        constants: Sequence[torch.Tensor] = (),
        *,
        mutated: Collection[str] = (),
        checked: bool = True,
        check_inputs: bool = False,
        check: Check | None = None,
        fallbacks: Mapping[str, Fallback] | None = None,
        substitute: Callable[[str], Fallback | None] = lambda name: None,
    ) -> None:
        self.program = program
        self.checked = checked
        self.check_inputs = check_inputs
        self.check = check
        self.fallbacks = fallbacks or {}
        self.substitute = substitute
        self._sources = kernels
        functions = {
            name: function
            for name, function in program.functions.items()
            if check_inputs or name != INPUT_CHECKS
        }
        self._interpreter = WrapperInterpreter(functions, self, program.source.quote)
        self._encoders: dict[str, Encoder] = {}
        self._host = Host()
        missing = sorted({kernel.library for kernel in program.kernels.values()} - set(kernels))
        if missing:
            raise WrapperError(f"no source for {', '.join(missing)}")
        if len(constants) != len(program.constants):
            raise WrapperError(
                f"the program has {len(program.constants)} constants, got {len(constants)}"
            )
        self._constants = [
            Owner(self._load(info, value, info.name in mutated))
            for info, value in zip(program.constants, constants, strict=True)
        ]

    @property
    def constants(self) -> list[torch.Tensor]:
        """Current values of the constants in the program's order, sharing memory."""
        return [owner.need().torch for owner in self._constants]

    def run(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        """Call the program once.

        Args:
            inputs: tensors on the CPU; not changed.
            outputs: tensors that the results are copied to, as in the runtime.

        Returns:
            The outputs, or new tensors with the program's strides.

        Raises:
            WrapperError: the wrapper cannot be executed, or makes an invalid call.
            KernelFault: a kernel violated a rule of Metal.
        """
        if len(inputs) != self.program.inputs:
            raise WrapperError(f"the program has {self.program.inputs} inputs, got {len(inputs)}")
        given = [self._make_input(f"input {index}", tensor) for index, tensor in enumerate(inputs)]
        handles: list[Any] = [UNSET] * self.program.outputs
        self._interpreter.line = 0
        self._interpreter.run(self.program.run, {"input_handles": given, "output_handles": handles})
        for index, handle in enumerate(handles):
            if not isinstance(handle, Tensor):
                raise WrapperError(f"output {index} is never written")
        if outputs is None:
            return [handle.torch.clone() for handle in handles]
        for index, (handle, output) in enumerate(zip(handles, outputs, strict=True)):
            if tuple(output.shape) != tuple(handle.sizes):
                # The output has the largest size; the runtime resizes it to the actual size.
                output.as_strided_(handle.sizes, row_major(handle.sizes))
            host = Tensor.share(output, CPU)
            self._check_call(MachineCall("aoti_torch_copy_", (host, handle, 0)), f"output {index}")
            copy_(host, handle, 0)
        return list(outputs)

    # The interface for the interpreter

    def constant(self, name: str) -> Any:
        """Return the value of a name that the wrapper does not declare."""
        if name == "constants_":
            return self._constants
        if name == "this":
            return self._host
        if name.startswith("cached_torch_"):
            return NUMBERS.get(name.replace("cached_torch_", "aoti_torch_", 1), UNSET)
        return name if name == "aoti_torch_mps_shared_callback" else UNSET

    def call(self, name: str, arguments: Sequence[Any], line: int) -> Any:
        """Call a function that the wrapper does not define.

        Raises:
            UnknownFunction: neither AOTI's headers nor the runtime have the function.
        """
        if name == INPUT_CHECKS:
            return None
        if name == "assert_size_stride" and self.check is not None:
            asserted = tuple(map(_argument, arguments))
            if self.check(MachineCall(name, asserted, 0, line, self.program.source.quote(line))):
                _lay_out(arguments[0], asserted[1], asserted[2])
        if name in HEADERS:
            return HEADERS[name](*arguments)
        if name == "reinterpret_tensor_wrapper":
            return self._reinterpret(arguments, line)
        if name == "_check_aoti_runtime_check_inputs_env":
            return self.checked or self.check_inputs
        if name in self.program.kernels:
            return self._encoder(name)
        if name in NUMBERS:
            return NUMBERS[name]
        places = [
            value for value in arguments if isinstance(value, Pointer) and value.get() is UNSET
        ]
        plain = tuple(_argument(value) for value in arguments if value not in places)
        quoted = self.program.source.quote(line) if self.check else ""
        self._store(places, self._perform(MachineCall(name, plain, len(places), line, quoted)))
        return 0

    def _perform(self, call: MachineCall) -> Any:
        broken = self.check is not None and self.check(call)
        if broken:
            call = dataclasses.replace(call, arguments=tuple(map(_original, call.arguments)))
        shim = SHADER_SHIMS.get(call.name) or SHIMS.get(call.name)
        if shim is not None:
            return shim(*call.arguments)
        instead = self.substitute(call.name) if broken else None
        fallback = instead or self.fallbacks.get(call.name)
        if fallback is None:
            quoted = self.program.source.quote(call.line) if call.line else call.source
            raise UnknownFunction(call.name, call.line, quoted)
        return _handles(fallback(*map(_value, call.arguments)))

    def _store(self, places: Sequence[Pointer], result: Any) -> None:
        if not places:
            return
        results = (result,) if len(places) == 1 and not isinstance(result, list) else tuple(result)
        if len(results) != len(places):
            raise BadCall(f"the call expects {len(places)} results and gets {len(results)}")
        for place, value in zip(places, results, strict=True):
            place.set(value)

    def _check_call(self, call: MachineCall, source: str) -> None:
        """Check a call that the runtime makes around the wrapper."""
        if self.check is not None:
            self.check(dataclasses.replace(call, source=source))

    # Inputs and constants

    def _make_input(self, name: str, tensor: torch.Tensor) -> Tensor:
        dense = tensor.detach()
        if not torch.ops.aten.is_non_overlapping_and_dense(dense):
            dense = dense.contiguous()
        host = Tensor.share(dense, CPU)
        code = memory.CODES.get(tensor.dtype)
        if code is None:
            raise WrapperError(f"{name} has the unsupported dtype {tensor.dtype}")
        allocation = MachineCall(
            "aoti_torch_empty_strided", (len(host.sizes), host.sizes, None, code, MPS, 0)
        )
        self._check_call(allocation, name)
        # The runtime's tensor is contiguous, so it can only be copied from a contiguous one.
        device = memory.empty(host.sizes, row_major(host.sizes), tensor.dtype)
        device = dataclasses.replace(device, origin="input")
        self._check_call(MachineCall("aoti_torch_copy_", (device, host, 0)), name)
        strides = memory.normalize_strides(host.sizes, host.strides)
        result = dataclasses.replace(device, strides=strides, meant=None)
        copy_(result, host, 0)
        return result

    def _load(self, info: ConstantInfo, value: torch.Tensor, mutated: bool) -> Tensor:
        code = NUMBERS.get(f"aoti_torch_dtype_{info.dtype}")
        if code is None or value.dtype != memory.DTYPES[code] or tuple(value.shape) != info.shape:
            found = f"{value.dtype} {list(value.shape)}"
            expected = f"{info.dtype} {list(info.shape)}"
            raise WrapperError(f"constant {info.name} is {found} and must be {expected}")
        elements = info.offset + extent(info.shape, info.strides)
        storage = Storage.allocate(elements * value.element_size())
        device = CPU if info.device == "cpu" else MPS
        ndim = len(info.shape)
        arguments = (
            storage,
            ndim,
            info.shape,
            info.strides,
            info.offset,
            code,
            device,
            0,
            0,
            None,
            0,
        )
        self._check_call(
            MachineCall("aoti_torch_create_tensor_from_blob_v2", arguments), f"constant {info.name}"
        )
        loaded = create_tensor_from_blob_v2(*arguments)
        loaded.torch.copy_(value.detach())
        return dataclasses.replace(loaded, origin="buffer") if mutated else loaded

    # Kernels

    @functools.cached_property
    def _library(self) -> tuple[Library, list[str]]:
        used = sorted({kernel.library for kernel in self.program.kernels.values()})
        return Library(*(self._sources[name] for name in used)), used

    def _encoder(self, name: str) -> Encoder:
        if name not in self._encoders:
            kernel = self.program.kernels[name]
            library, used = self._library
            found = library.kernel(kernel.function, used.index(kernel.library))
            self._encoders[name] = Encoder(kernel.library, found, self.checked)
        return self._encoders[name]

    def _reinterpret(self, arguments: Sequence[Any], line: int) -> Tensor:
        place = Pointer.to(UNSET)
        self.call("aoti_torch__reinterpret_tensor", (*arguments, place), line)
        view: Tensor = place.get()
        return view


def _argument(value: Any) -> Any:
    if isinstance(value, Pointer):
        return values.tensor(value.get())
    if value is UNSET:
        raise values.NullHandle("an argument was never written")
    return values.tensor(value)


def _original(value: Any) -> Any:
    """Return the view that a dense copy was made of; return any other value unchanged."""
    return value.original or value if isinstance(value, Tensor) else value


def _value(argument: Any) -> Any:
    """Convert an argument for a fallback kernel."""
    if isinstance(argument, tuple):
        return tuple(_value(values.tensor(item)) for item in argument)
    return argument.torch if isinstance(argument, Tensor) else argument


def _lay_out(owner: Any, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Replace the tensor of an owner by one with the strides that the code assumes."""
    found = values.tensor(owner)
    if isinstance(owner, Owner) and found.sizes == sizes:
        owner.tensor = memory.empty(sizes, strides, found.dtype, found.device)
        owner.tensor.torch.copy_(found.torch)


def _handles(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return Tensor.share(result)
    if isinstance(result, tuple | list):
        return [_handles(value) for value in result]
    return result
