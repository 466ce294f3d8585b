# The names for users of cases, targets and runs, and where they live: read by type checkers, and
# by lazy_loader at run time. backend_api.pyi has the names for authors of backends.
from .checking.check import check as check
from .contract.check_backend import check_backend as check_backend
from .errors import (
    CaseError as CaseError,
    ConformError as ConformError,
    InputError as InputError,
    ProgramError as ProgramError,
    StageFailure as StageFailure,
    UnsupportedProgram as UnsupportedProgram,
    UsageError as UsageError,
)
from .execution.any_program.run import execute as execute
from .model import registry as registry
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
from .model.metric import Metric as Metric
from .numerics.compare import Verdict as Verdict
from .numerics.oracle import (
    Reference as Reference,
    compute_reference as compute_reference,
)
from .passes.pass_case import PassCase as PassCase
from .pipeline.cell_options import CellOptions as CellOptions
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
from .record.run import Run as Run
from .record.severity import Severity as Severity
from .record.target import Target as Target
from .tracing.trace import trace as trace
from .tracing.trace_result import (
    Found as Found,
    TracedNode as TracedNode,
    with_divergence as with_divergence,
)
from .vendors.versions import is_installed_within as is_installed_within
