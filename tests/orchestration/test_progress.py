"""A person who waits sees what the steps say."""

import dagster as dg

from orchestration.progress import listener, progress


@dg.op
def talk(context: dg.OpExecutionContext) -> None:
    context.log.info("3 pages")


@dg.job(logger_defs={"progress": progress})
def talking() -> None:
    talk()


def test_only_what_steps_say_themselves_is_heard() -> None:
    heard: list[str] = []
    token = listener.set(heard.append)
    talking.execute_in_process(run_config={"loggers": {"progress": {}}})
    listener.reset(token)
    assert heard == ["3 pages"]


@dg.op
def fail() -> int:
    raise ValueError("broken")


@dg.op
def use(number: int) -> None:
    """Never run."""


@dg.job(logger_defs={"progress": progress})
def failing() -> None:
    use(fail())


def test_a_step_that_is_skipped_after_a_failure_is_not_heard() -> None:
    heard: list[str] = []
    token = listener.set(heard.append)
    assert not failing.execute_in_process(run_config={"loggers": {"progress": {}}}, raise_on_error=False).success
    listener.reset(token)
    assert heard == []


def test_without_a_listener_nothing_happens() -> None:
    assert talking.execute_in_process(run_config={"loggers": {"progress": {}}}).success
