"""Injected exceptions: any call from our code into another library can raise a plain `Exception`.

The modules of edgebench are rewritten when they are loaded: each call `f(x)` in their source
becomes `__called__(site, f)(x)`, where a site is a line and column. `__called__` returns `f`, or
raises, if `f` belongs to another distribution (or is of sqlite3, zlib, ssl, zipfile) and this site
and call are the armed ones. Everything else in the process is as always: the exception arrives as
the library's own would.

    sites in the source ──▶ reached by a command, how often (`Calls.counts`) ──▶ armed, one by one
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.metadata
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any, NewType

Site = NewType("Site", str)
"""Place of a call: `module:line:column`."""

OURS = "edgebench"
TEXT = "injected by the test"
_CALLED = "__called__"
_EXTRA = {"sqlite3", "zlib", "ssl", "zipfile"}
"""Modules of the standard library that stand before files and peers."""


def third_party_modules() -> frozenset[str]:
    """Top-level modules of all installed distributions but ours and those that only test."""
    installed = importlib.metadata.packages_distributions()
    tests = {"pytest", "_pytest", "hypothesis", "coverage", "xdist", "execnet", "pluggy"}
    return frozenset(_EXTRA | set(installed) - {OURS} - tests)


@dataclass
class Calls:
    """What the rewritten modules report their calls to."""

    foreign: frozenset[str] = field(default_factory=third_party_modules)
    counts: Counter[Site] = field(default_factory=Counter)
    """Calls into other libraries, by site."""
    sites: set[Site] = field(default_factory=set)
    """All calls in the source of the modules that are loaded."""
    armed: tuple[Site, int] | None = None
    """The site and the number of its call that raises, from 1."""
    fired: bool = False
    on_fire: Callable[[], None] = lambda: None

    def called(self, site: Site, function: Any) -> Any:
        """Count a call; the function, unless it is armed."""
        if not self._is_foreign(function):
            return function
        self.counts[site] += 1
        if self.armed == (site, self.counts[site]) and not self.fired:
            self.fired = True
            self.on_fire()
            raise Exception(TEXT)  # plain, as some libraries raise it
        return function

    def _is_foreign(self, function: Any) -> bool:
        function = getattr(function, "func", function)  # a partial
        module: object = getattr(function, "__module__", None)
        if not isinstance(module, str):
            holder = getattr(function, "__self__", function)
            is_module = isinstance(holder, ModuleType)
            module = holder.__name__ if is_module else getattr(type(holder), "__module__", "")
        return str(module).partition(".")[0] in self.foreign

    def install(self) -> None:
        """Rewrite the modules of ours that are loaded from now on."""
        loaded = sorted(name for name in sys.modules if name.partition(".")[0] == OURS)
        assert not [name for name in loaded if sys.modules[name].__file__], loaded
        sys.meta_path.insert(0, _Finder(self))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, module: str, sites: set[Site]) -> None:
        self._module, self._sites = module, sites

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        site = Site(f"{self._module}:{node.lineno}:{node.col_offset}")
        self._sites.add(site)
        hook = ast.Name(_CALLED, ast.Load())
        node.func = ast.Call(hook, [ast.Constant(site), node.func], [])
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    calls: Calls

    def get_code(self, fullname: str) -> CodeType:
        """Code of the module, rewritten; no file of bytecode is read or written."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        tree = ast.fix_missing_locations(_Rewriter(fullname, self.calls.sites).visit(tree))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, with its hook."""
        module.__dict__[_CALLED] = self.calls.called
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The usual spec of a module of ours, with another loader."""
        if fullname.partition(".")[0] != OURS:
            return None
        spec: importlib.machinery.ModuleSpec | None = None
        for finder in itertools.islice(sys.meta_path, 1, None):
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                break
        else:
            return None
        if type(spec.loader) is importlib.machinery.SourceFileLoader:
            loader = _Loader(fullname, spec.loader.path)
            loader.calls = self._calls
            spec.loader = loader
            spec.cached = None
        return spec
