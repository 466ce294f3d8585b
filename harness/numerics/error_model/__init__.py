"""Model the errors of single operators: rounding, discontinuities, ranges, coordinates, signs.

Tables and formulas with their sources. The perturbed runs apply them. The modules import nothing
else of the harness but helpers for trees and float64 products.
"""
