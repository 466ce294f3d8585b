"""Programs made from torch's OpInfo samples."""
