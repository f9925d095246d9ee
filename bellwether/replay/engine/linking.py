"""Links the engine's functions once, where numba links, optimises and emits each function again with all that it calls.

This rests on parts of numba that are not its public interface. For a version that it was not tried with, and where they are missing, `pipelines` gives
nothing, and functions are compiled numba's own way: to the same results, in several times the time.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.types import unliteral

#: Versions of numba, major and minor, that this was tried with.
TRIED = frozenset({(0, 68)})


#: Stands in the names of functions that an entry has taken in, before its own.
TAKEN_IN = ".in."


def pipelines() -> tuple[Any, Any]:
    """Pipeline classes of numba for parts, which stay without machine code, and for the entries that take them in; (None, None) for numba's own."""
    if numba.version_info.short not in TRIED:
        return None, None
    try:
        return _pipelines()
    except (ImportError, AttributeError):
        return None, None


def without_literals(dispatcher: Any) -> Any:
    """Let a compiled function have one form for all constants that it is called with; numba's own way is one for each."""
    template_for = dispatcher.get_call_template

    def template(args: Any, kws: Any) -> Any:
        return template_for(tuple(unliteral(one) for one in args), {name: unliteral(one) for name, one in dict(kws).items()})

    dispatcher.get_call_template = template
    return dispatcher


def _pipelines() -> tuple[Any, Any]:
    class Part(JITCodeLibrary):
        """The code of one function: neither optimised nor turned into machine code, for others to take in."""

        @property
        def codegen(self) -> Any:
            return _NoMachineCode

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def finalize(self) -> None:
            self._raise_if_finalized()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            return 0

        def _get_module_for_linking(self) -> Any:
            """With all that it calls, for a library that is not an entry."""
            if self._shared_module is None:
                self._shared_module = self._final_module.clone()
                for library in _called(self._linking_libraries):
                    self._shared_module.link_in(_alone(library), preserve=True)
                _set_linkage(self._shared_module, _defined(self._shared_module), "linkonce_odr")
            return self._shared_module

    class Entry(JITCodeLibrary):
        """Takes in every part that it calls, directly or not, once, as functions of its own.

        They are renamed: the optimiser may change how they are called, and the linker at run time goes by names, of local functions too.
        """

        def finalize(self) -> None:
            self._raise_if_finalized()
            taken: list[str] = []
            for library in _called(self._linking_libraries):
                module = _alone(library)
                if isinstance(library, Part):
                    taken += _defined(module)
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(module, preserve=True)
            _set_linkage(self._final_module, taken, "internal")
            for name in taken:
                self._final_module.get_function(name).name = f"{name}{TAKEN_IN}{self.name}"
            self._optimize_final_module()
            self._final_module.verify()
            self._finalize_final_module()

        def _optimize_final_module(self) -> None:
            """Once: numba's first, cheaper round prepares for the removal of reference counts, of which there are none."""
            manager, builder = self._codegen._module_pass_manager()
            manager.run(self._final_module, builder)

    def _alone(library: Any) -> Any:
        return library._final_module if isinstance(library, Part) else library._get_module_for_linking()

    def _called(libraries: Any) -> list[Any]:
        """The libraries and, of parts, those that they call, each once."""
        found: dict[Any, None] = {}
        waiting = list(libraries)
        while waiting:
            library = waiting.pop()
            library._ensure_finalized()
            if library not in found:
                found[library] = None
                waiting += library._linking_libraries if isinstance(library, Part) else ()
        return list(found)

    class Options(Flags):
        """numba's options of a compilation, which it compares at every call that it finds the type of."""

        def values(self) -> Any:
            if self.__dict__.get("of") != self._values:
                values = super().values()
                self.__dict__.update(of=dict(self._values), all=values, hash=hash(tuple(sorted(values))))
            return self.__dict__["all"]

        def __hash__(self) -> int:
            self.values()
            return int(self.__dict__["hash"])

        def __eq__(self, other: object) -> bool:
            return self is other or bool(super().__eq__(other))

    class Pipeline(Compiler):
        library: Any

        def _compile_core(self) -> Any:
            self.state.flags = Options(self.state.flags)
            return super()._compile_core()

        def define_pipelines(self) -> Any:
            self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    class PartPipeline(Pipeline):
        library = Part

        def define_pipelines(self) -> Any:
            self.state.flags.no_cpython_wrapper = self.state.flags.no_cfunc_wrapper = True
            return super().define_pipelines()

    class EntryPipeline(Pipeline):
        library = Entry

    return PartPipeline, EntryPipeline


class _NoMachineCode:
    """In the place of numba's generator of machine code, which would look for what a part does not have."""

    @staticmethod
    def set_env(name: str, env: Any) -> None:
        pass


def _defined(module: Any) -> list[str]:
    return [function.name for function in module.functions if not function.is_declaration]


def _set_linkage(module: Any, names: list[str], linkage: str) -> None:
    for name in names:
        module.get_function(name).linkage = linkage
