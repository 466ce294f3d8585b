from executorch.exir._serialize._flatbuffer import _get_flatc_path as _get_flatc_path
from executorch.exir._serialize._flatbuffer_program import (
    _flatbuffer_to_program as _flatbuffer_to_program,
)
from executorch.exir._serialize._named_data_store import (
    NamedDataStore as NamedDataStore,
    NamedDataStoreOutput as NamedDataStoreOutput,
)
from executorch.exir._serialize._program import (
    PTEFile as PTEFile,
    _ExtendedHeader as _ExtendedHeader,
    _restore_segments as _restore_segments,
    serialize_pte_binary as serialize_pte_binary,
)
from executorch.exir._serialize.data_serializer import DataEntry as DataEntry
from executorch.exir.dialects._ops import ops as ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload as EdgeOpOverload
from executorch.exir.program._program import _transform as _transform
from executorch.exir.tracer import _default_decomposition_table as _default_decomposition_table
