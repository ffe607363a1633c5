"""Shared by all contracts: async tests, required fixtures, declared capabilities."""

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import pytest

from lance_context_core.errors import InvalidRequestError

T = TypeVar("T", bound=Callable[..., Any])


def needs(capability: str) -> Callable[[T], T]:
    """Skips a test for a store that declares not to have the capability."""

    def marked(test: T) -> T:
        test.__dict__["needs"] = capability
        return test

    return marked


class Contract:
    """Tests of one protocol; pytest alone runs its `async def` tests, those of subclasses too."""

    hooks: ClassVar[Mapping[str, str]] = {}
    """The required fixtures of a subclass, with the value of each."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, test in list(vars(cls).items()):
            if name.startswith("test") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _awaited(test))
        # Only classes that pytest runs: intermediate ones may leave hooks open.
        missing = [name for name in cls.hooks if not hasattr(cls, name)]
        if missing and cls.__name__.startswith("Test"):
            wanted = ", ".join(f"{name!r} ({cls.hooks[name]})" for name in missing)
            raise InvalidRequestError(
                f"{cls.__name__} lacks the fixture {wanted}: define it in the class, "
                f"as a method with @pytest.fixture"
            )

    @pytest.fixture
    def runner(self) -> Iterator[asyncio.Runner]:
        """One test's event loop; `runner.run(opened())` in a fixture opens loop-bound resources."""
        with asyncio.Runner() as runner:
            yield runner

    @pytest.fixture
    def later(self) -> Callable[[], None]:
        """Waits until the next write gets a later time than the last one.

        Override it if the store does not use the machine's clock.
        """
        return lambda: time.sleep(0.02)  # a clock may tick every 16 ms

    @pytest.fixture(autouse=True)
    def _capability(self, request: pytest.FixtureRequest) -> None:
        name = getattr(request.function, "needs", None)
        if name is not None and not getattr(self, name):
            declared = getattr(self, name)
            pytest.skip(f"{type(self).__name__} declares {name} = {declared!r}")

    def test_no_test_of_the_contract_is_overridden_or_dropped(self) -> None:
        """Unless it is marked as an expected failure, with a reason for the deviation."""
        contract = next(one for one in type(self).__mro__ if one.__module__.startswith(__package__))
        changed = [
            name
            for name in dir(contract)
            if name.startswith("test")
            and getattr(type(self), name) is not getattr(contract, name)
            and not _is_expected_to_fail(getattr(type(self), name))
        ]
        assert changed == []


def assert_has_the_methods(of: object, protocol: type) -> None:
    """Whether the object has the methods of the protocol, with their parameters."""
    missing = []
    for name, promised in inspect.getmembers(protocol, inspect.isfunction):
        if name.startswith("_"):
            continue
        method = getattr(of, name, None)
        if not callable(method):
            missing.append(f"{name}()")
            continue
        taken = inspect.signature(method).parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
            continue
        promise = [one for one in inspect.signature(promised).parameters if one != "self"]
        missing += [f"{name}({one}=)" for one in promise if one not in taken]
    assert missing == [], f"{type(of).__name__} lacks what {protocol.__name__} has"


def _awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test as a blocking one, which requests its loop as the first fixture."""
    itself, *fixtures = inspect.signature(test).parameters.values()
    runner = inspect.Parameter("runner", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    @functools.wraps(test)
    def run(self: Contract, runner: asyncio.Runner, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        runner.run(test(self, *args, **kwargs))

    run.__dict__["__signature__"] = inspect.Signature([itself, runner, *fixtures])
    return run


def _is_expected_to_fail(test: object) -> bool:
    marks = getattr(test, "pytestmark", [])
    return any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
