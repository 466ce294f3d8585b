"""What is computed otherwise because it is large: sums that runs share, linear operations of what a
run is off by, attention in blocks. Judged, it is like what is small. Imports the error model.
"""
