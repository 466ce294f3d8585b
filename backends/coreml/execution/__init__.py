"""Execute MIL programs with torch."""
