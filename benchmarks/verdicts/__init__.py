"""Error rates of verdicts: correct programs that fail, and faults that pass."""
