"""Site: the dashboard, a folder of static files that opens from disk without a server.

::

    from reports import site

    made = site.write(Path("site"), [Path("runs")])
    made.index, made.remarks

``index.html`` has the newest run as text. Scripts draw everything else in the browser and load
data files on demand. docs/dashboard.md describes the layout.
"""

from __future__ import annotations

from reports.site.build import FULL, LAST, Site, write

__all__ = ["FULL", "LAST", "Site", "write"]
