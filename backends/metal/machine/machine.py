"""Executes a generated program on the CPU, as the Metal runtime would on a device.

Source of what surrounds ``run_impl``: ``backends/apple/metal/runtime/metal_backend.cpp`` for
inputs and outputs, torch's ``aoti_runtime/model_base.h`` for constants.
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
from backends.metal.machine.calls import Call, Check, Fallback
from backends.metal.machine.encoder import SHADER_SHIMS, Encoder
from backends.metal.machine.headers import HEADERS
from backends.metal.machine.memory import CPU, MPS, Storage, Tensor
from backends.metal.machine.shims import (
    NUMBERS,
    SHIMS,
    BadCall,
    copy_,
    create_tensor_from_blob_v2,
)
from backends.metal.machine.statements import WrapperInterpreter
from backends.metal.machine.values import UNSET, Host, Owner, Pointer

# The wrapper's function that compares the inputs with those that were traced.
INPUT_CHECKS = "__check_inputs_outputs"


class Machine:
    """One loaded program.

    Constants live as long as the machine; what a call writes to them, the next one sees.

    Args:
        program: what it runs.
        kernels: Metal source by the name of its library.
        constants: their values, in the program's order; copied.
        mutated: names of those that the code writes to: memory of the run, for the contract.
        checked: report bad accesses and races in kernels, and results of fallback kernels that
            are not laid out as the code takes them to be.
        check_inputs: report inputs other than those that the code was generated for. Both of
            AOTI's own checks run on a device with ``AOTI_RUNTIME_CHECK_INPUTS=1`` only.
        check: sees each call before it is made, and may raise. If it does not, a call that breaks
            the contract is made as the code means it: tensors have the layout that the code takes
            them to have, and a view is no copy.
        fallbacks: kernels of the runtime, by the C function's name.
        substitute: finds what computes a call that breaks the contract in place of ``fallbacks``,
            once ``check`` has gone past that.

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
                f"the program has {len(program.constants)} constants, {len(constants)} are given"
            )
        self._constants = [
            Owner(self._load(info, value, info.name in mutated))
            for info, value in zip(program.constants, constants, strict=True)
        ]

    @property
    def constants(self) -> list[torch.Tensor]:
        """Their values now, in the program's order; shared."""
        return [owner.need().torch for owner in self._constants]

    def run(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        """Call the program once.

        Args:
            inputs: tensors on the CPU; left as they are.
            outputs: tensors that the results are copied to, as the runtime does.

        Returns:
            The outputs, or new tensors with the strides that the program gave them.

        Raises:
            WrapperError: the wrapper cannot be executed, or does what makes no sense.
            KernelFault: a kernel did what it must not.
        """
        if len(inputs) != self.program.inputs:
            raise WrapperError(f"{self.program.inputs} inputs expected, {len(inputs)} given")
        given = [self._input(f"input {index}", tensor) for index, tensor in enumerate(inputs)]
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
                # Planned for the largest size; the runtime resizes it to the actual one.
                output.as_strided_(handle.sizes, row_major(handle.sizes))
            host = Tensor.share(output, CPU)
            self._see(Call("aoti_torch_copy_", (host, handle, 0)), f"output {index}")
            copy_(host, handle, 0)
        return list(outputs)

    # What the interpreter asks for

    def constant(self, name: str) -> Any:
        """The value of a name that the wrapper does not declare."""
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
            UnknownFunction: it is none of AOTI's headers and none of the runtime.
        """
        if name == INPUT_CHECKS:
            return None
        if name == "assert_size_stride" and self.check is not None:
            asserted = tuple(map(_argument, arguments))
            if self.check(Call(name, asserted, 0, line, self.program.source.quote(line))):
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
        self._store(places, self._perform(Call(name, plain, len(places), line, quoted)))
        return 0

    def _perform(self, call: Call) -> Any:
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
            raise BadCall(f"{len(places)} results are asked for, {len(results)} come")
        for place, value in zip(places, results, strict=True):
            place.set(value)

    def _see(self, call: Call, source: str) -> None:
        """Show the contract a call that the runtime makes around the wrapper."""
        if self.check is not None:
            self.check(dataclasses.replace(call, source=source))

    # Borders of the program

    def _input(self, name: str, tensor: torch.Tensor) -> Tensor:
        dense = tensor.detach()
        if not torch.ops.aten.is_non_overlapping_and_dense(dense):
            dense = dense.contiguous()
        host = Tensor.share(dense, CPU)
        code = memory.CODES.get(tensor.dtype)
        if code is None:
            raise WrapperError(f"{name} is {tensor.dtype}")
        asked = Call("aoti_torch_empty_strided", (len(host.sizes), host.sizes, None, code, MPS, 0))
        self._see(asked, name)
        # The runtime's tensor is contiguous, and what is not cannot be copied to it.
        device = memory.empty(host.sizes, row_major(host.sizes), tensor.dtype)
        device = dataclasses.replace(device, origin="input")
        self._see(Call("aoti_torch_copy_", (device, host, 0)), name)
        strides = memory.normalized(host.sizes, host.strides)
        kept = dataclasses.replace(device, strides=strides, meant=None)
        copy_(kept, host, 0)
        return kept

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
        self._see(Call("aoti_torch_create_tensor_from_blob_v2", arguments), f"constant {info.name}")
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
    """The view in place of the dense copy that the runtime made of it; all else as it is."""
    return value.original or value if isinstance(value, Tensor) else value


def _value(argument: Any) -> Any:
    """An argument as fallback kernels take it."""
    if isinstance(argument, tuple):
        return tuple(_value(values.tensor(item)) for item in argument)
    return argument.torch if isinstance(argument, Tensor) else argument


def _lay_out(owner: Any, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Give the tensor of an owner the strides that the code takes it to have."""
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
