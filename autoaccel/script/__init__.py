"""What a script means: names, data flow, kinds of values, calls, training steps and evaluation passes."""

from autoaccel.script.project import Project
from autoaccel.script.script import Script, load
from autoaccel.script.values import Kind, Value

__all__ = ["Kind", "Project", "Script", "Value", "load"]
