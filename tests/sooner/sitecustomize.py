"""Has a process that a test starts import the store as the command line does: see `cheaper.py`."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder


class _Sooner(MetaPathFinder):
    def find_spec(self, name, path, _target=None, /):
        """What the store is found by, once."""
        if name != "lance_context_core":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        try:
            from lance_context_cli.lean import importing
        except ModuleNotFoundError:
            return spec
        execute = spec.loader.exec_module

        def execute_sooner(module):
            with importing():
                execute(module)

        spec.loader.exec_module = execute_sooner
        return spec


sys.meta_path.insert(0, _Sooner())
