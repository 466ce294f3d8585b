"""Commands that read run folders, one module per command.

:mod:`harness.cli` attaches them to ``conform``. At the top these modules import only click; they
import everything else when a command runs, so that ``conform --help`` stays fast.
"""
