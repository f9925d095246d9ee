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
