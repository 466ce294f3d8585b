"""Layers and small models in float16 and bfloat16 on XNNPACK."""
