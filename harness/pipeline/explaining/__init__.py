"""Why a program is not what was hoped for: ``rejections`` of a partitioner, and the ``frames`` of
the model in which a stage raised. Imports the vocabulary and ``execution``.
"""
