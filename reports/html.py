from harness.run import Run


def render(run: Run) -> str:
    return ""
