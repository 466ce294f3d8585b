# The public names and where they live: read by type checkers, and by lazy_loader at run time.
from .checking.check import check as check
from .contract.check_backend import check_backend as check_backend
from .contract.specimens import Specimen as Specimen
from .errors import (
    CaseError as CaseError,
    ConformError as ConformError,
    InputError as InputError,
    ProgramError as ProgramError,
    StageFailure as StageFailure,
    UnsupportedProgram as UnsupportedProgram,
    UsageError as UsageError,
    describe as describe,
)
from .execution.any_program.run import execute as execute
from .execution.execute import (
    DelegateHandle as DelegateHandle,
    DelegateLoader as DelegateLoader,
    Interpreter as Interpreter,
    list_native_backends as list_native_backends,
    run_native as run_native,
)
from .execution.kernels import AtenKernels as AtenKernels, RuntimeKernels as RuntimeKernels
from .execution.operators import op_name as op_name
from .execution.program import DelegatePayload as DelegatePayload, Program as Program
from .execution.validation import torch_dtype as torch_dtype
from .model import registry as registry
from .model.backend import (
    Availability as Availability,
    Backend as Backend,
    CanEmulate as CanEmulate,
    DefectLog as DefectLog,
    DescribesPayloads as DescribesPayloads,
    Execution as Execution,
    InspectedCell as InspectedCell,
    InspectsCells as InspectsCells,
    KnowsIssues as KnowsIssues,
    KnowsLimitations as KnowsLimitations,
    LoadsDelegates as LoadsDelegates,
    PayloadConstants as PayloadConstants,
    ReportsConstants as ReportsConstants,
    SelectsTargets as SelectsTargets,
    past_defects as past_defects,
    report_defect as report_defect,
)
from .model.case import (
    Built as Built,
    Call as Call,
    CallInputs as CallInputs,
    Case as Case,
    Exporter as Exporter,
    Inputs as Inputs,
    arguments as arguments,
)
from .model.known_issues.known_issue import KnownIssue as KnownIssue
from .model.limitation import Limitation as Limitation
from .model.precision import Precision as Precision
from .model.recipe import (
    KnownPass as KnownPass,
    Lowered as Lowered,
    Recipe as Recipe,
    Script as Script,
    find_calibration_problem as find_calibration_problem,
)
from .numerics.compare import Verdict as Verdict
from .numerics.formats.block_scaled import MxProduct as MxProduct
from .numerics.formats.dequantize import (
    BlockQuantizedTensor as BlockQuantizedTensor,
    QuantizedMatmul as QuantizedMatmul,
)
from .numerics.formats.semantics import (
    GENERIC_SEMANTICS as GENERIC_SEMANTICS,
    OperatorSemantics as OperatorSemantics,
)
from .numerics.oracle import Reference as Reference, compute_reference as compute_reference
from .passes.pass_case import PassCase as PassCase
from .pipeline.runner import run_cell as run_cell
from .pipeline.saving.cell_folder import CellFolder as CellFolder
from .pipeline.shared_case_work import SharedCaseWork as SharedCaseWork
from .pipeline.stages import LowerOptions as LowerOptions
from .pipeline.tester import Tester as Tester
from .record.cell import (
    CROSS_BACKEND as CROSS_BACKEND,
    Cell as Cell,
    Delegation as Delegation,
    Numerics as Numerics,
    PassProperty as PassProperty,
    Status as Status,
)
from .record.program_data import Defect as Defect, Encoding as Encoding
from .record.run import Run as Run
from .record.severity import Severity as Severity
from .record.target import Target as Target
from .tracing.trace import trace as trace
from .tracing.trace_result import (
    Found as Found,
    TracedNode as TracedNode,
    with_divergence as with_divergence,
)
from .vendors.replacements import is_sped_up as is_sped_up
from .vendors.versions import (
    describe_installed as describe_installed,
    describe_unverified as describe_unverified,
    has_module as has_module,
    installed_version as installed_version,
    is_installed_within as is_installed_within,
)
from .workers.child_process import ChildProcess as ChildProcess
from .workers.memory import MemoryMeter as MemoryMeter
