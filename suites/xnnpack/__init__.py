"""Programs for conditions of XNNPACK's partitioner and passes, and of no other target."""
