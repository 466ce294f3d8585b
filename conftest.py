"""Turns on the plugins, also where this checkout is not installed."""

pytest_plugins = ["harness.collection.plugin", "harness.cli.session", "harness.farm.plugin"]
