"""Site: the dashboard, a folder of static files that opens from disk and asks no server.

::

    from reports import site

    made = site.write(Path("site"), [Path("runs")])
    made.index, made.remarks

``index.html`` is the newest run in words, made here; everything else is drawn in the browser
from data files that are loaded when they are looked at. docs/dashboard.md has the layout.
"""

from __future__ import annotations

from reports.site.build import FULL, LAST, Site, write

__all__ = ["FULL", "LAST", "Site", "write"]
