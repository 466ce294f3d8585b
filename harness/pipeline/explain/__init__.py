"""Why a program is not what was hoped for: ``rejections`` of a partitioner, the ``frames`` of the
model in which a stage raised, and the ``refusal`` of ExecuTorch itself, which is asked by lowering
the program once more.
"""
