"""A user's file of models; tests copy it to a folder of its own."""

MODELS = """\
import torch

LIMIT = 3


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(6, 4)

    def forward(self, x):
        return self.head(x).cumsum(-1)

    def example_inputs(self):
        return (torch.randn(4, 6),)


class Attribute(Net):
    example_inputs = torch.ones(2, 6)


class Branching(Net):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Named(torch.nn.Module):
    def forward(self, x, *, scale):
        return {"y": torch.sin(x) * scale}


def build():
    return Net(), (torch.randn(4, 6),)


def by_name():
    return Named(), {"x": torch.randn(4, 6), "scale": torch.rand(6)}


def both():
    return Named(), [torch.randn(4, 6)], {"scale": torch.rand(6)}


def program():
    return torch.export.export(Net().eval(), (torch.randn(4, 6),))


def alone():
    return torch.nn.Linear(6, 2)


def misfit():
    return Net(), (torch.randn(4, 5),)


def number():
    return 7


def raises():
    raise ValueError("no weights here")


def leaves():
    raise SystemExit(4)


def needs(width):
    return width


def odd_inputs():
    return Net(), 3


instance = Net()
"""
