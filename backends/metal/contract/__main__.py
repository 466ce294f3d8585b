"""``python -m backends.metal.contract > docs/metal_contract.md``"""

from backends.metal.contract.table import contract_document

print(contract_document(), end="")
