# The names for authors of backends, and where they live; see __init__.pyi.
from .contract.specimens import (
    Expected as Expected,
    Specimen as Specimen,
    SpecimenKind as SpecimenKind,
    plant_fault as plant_fault,
)
from .errors import describe as describe
from .execution.execute import (
    DelegateHandle as DelegateHandle,
    DelegateLoader as DelegateLoader,
    Interpreter as Interpreter,
    list_native_backends as list_native_backends,
    run_native as run_native,
)
from .execution.kernels import (
    AtenKernels as AtenKernels,
    Kernels as Kernels,
    ReferenceKernels as ReferenceKernels,
    RuntimeKernels as RuntimeKernels,
)
from .execution.memory_order import (
    read_memory as read_memory,
    write_memory as write_memory,
)
from .execution.operators import (
    find_missing_kernels as find_missing_kernels,
    list_core_operators as list_core_operators,
    list_operators as list_operators,
    op_name as op_name,
)
from .execution.program import (
    DelegatePayload as DelegatePayload,
    Program as Program,
)
from .execution.validation import torch_dtype as torch_dtype
from .model.backend import (
    Availability as Availability,
    Backend as Backend,
    CanEmulate as CanEmulate,
    ClaimsOperators as ClaimsOperators,
    DefectLog as DefectLog,
    DescribesPayloads as DescribesPayloads,
    Execution as Execution,
    InspectedCell as InspectedCell,
    InspectsCells as InspectsCells,
    KnowsIssues as KnowsIssues,
    KnowsLimitations as KnowsLimitations,
    LoadsDelegates as LoadsDelegates,
    LoadsKernels as LoadsKernels,
    LoweringCode as LoweringCode,
    NamesLoweringCode as NamesLoweringCode,
    OffersPasses as OffersPasses,
    OffersSettings as OffersSettings,
    PayloadConstants as PayloadConstants,
    ReportsConstants as ReportsConstants,
    SelectsTargets as SelectsTargets,
    past_defects as past_defects,
    report_defect as report_defect,
)
from .model.fallbacks import is_conversion as is_conversion
from .model.precision import Precision as Precision
from .model.recipe import (
    KnownPass as KnownPass,
    Lowered as Lowered,
    Recipe as Recipe,
    Script as Script,
    find_calibration_problem as find_calibration_problem,
    is_in_module as is_in_module,
    make_program_pass as make_program_pass,
    require_annotations as require_annotations,
)
from .model.variations.setting import (
    Setting as Setting,
    make_quantizer_setting as make_quantizer_setting,
)
from .numerics.formats.block_scaled import MxProduct as MxProduct
from .numerics.formats.dequantize import (
    BlockQuantizedTensor as BlockQuantizedTensor,
    QuantizedMatmul as QuantizedMatmul,
)
from .numerics.formats.semantics import (
    GENERIC_SEMANTICS as GENERIC_SEMANTICS,
    OperatorSemantics as OperatorSemantics,
)
from .record.program_data import (
    Defect as Defect,
    Encoding as Encoding,
    OperatorClaim as OperatorClaim,
)
from .vendors.replacements import is_sped_up as is_sped_up
from .vendors.versions import (
    describe_installed as describe_installed,
    describe_unverified as describe_unverified,
    has_module as has_module,
    installed_version as installed_version,
)
from .workers.child_process import ChildProcess as ChildProcess
from .workers.memory import MemoryMeter as MemoryMeter
