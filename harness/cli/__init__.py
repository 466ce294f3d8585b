"""``conform``: run cells, read runs. ``--help`` and everything on records start without torch.

A module a topic, in one group (``__main__``); this wing alone sees both the harness and the
reports. What a session of pytest loads of it, in each process, is one hook (``session``): commands
are imported when somebody asks for them.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"__main__": ["main"]})
