"""Commands on what runs share: the machines of a farm, and results that need no second run."""
