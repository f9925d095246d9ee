"""Files of deploy/, compared with the settings, commands and packages that they name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest
import yaml

from bellwether.doctor.deployment import missing_settings
from bellwether.settings import Settings
from cli.main import main
from orchestration.fleet import instance_settings
from orchestration.home import CODE, LOCATION

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "values.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if re.match(r"[\w.-]+==\S+$", line))
FILES = sorted(path for path in (ROOT / "deploy").iterdir() if path.suffix in {"", ".yaml", ".dockerignore"} and path.is_file())
SECRET = re.compile(r"PASSWORD|SECRET|KEY|TOKEN", re.IGNORECASE)
VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")
SETTINGS = {f"BELLWETHER_{name.upper()}" for name in Settings.model_fields}


def substituted(text: str, given: dict[str, str]) -> str:
    """Substitute variables like Compose: `${NAME:-default}` and `${NAME:?}`."""
    return VARIABLE.sub(lambda found: given.get(found[1]) or (found[3] if found[2] == "-" else f"<{found[1]}>"), text)


def require_command(words: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="bellwether")
    assert words[0] == "bellwether"
    rest = words[1:]
    while isinstance(command, click.Group) and rest:
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
    command.make_context("bellwether", rest)


# Image


def instructions(name: str) -> list[str]:
    lines = re.sub(r"\\\n\s*", " ", DOCKERFILE).splitlines()
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{name} ")]


def test_the_image_is_pinned_and_runs_without_root() -> None:
    (base,) = instructions("FROM")
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base)
    assert instructions("USER") == ["1000:1000"]
    assert DOCKERFILE.index("USER 1000:1000") < DOCKERFILE.index("COPY") < DOCKERFILE.index("CMD")
    (install,) = (line for line in instructions("RUN") if "pip install" in line)
    assert "-c constraints.txt" in install
    extras = set(re.findall(r"'\.\[([\w,]+)\]'", install)[0].split(","))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert extras <= set(project["project"]["optional-dependencies"])
    require_command(yaml.safe_load(instructions("CMD")[0]))


def test_the_image_has_every_package_and_nothing_else_of_the_folder() -> None:
    copied = {part for line in instructions("COPY") for part in line.split()[1:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= copied
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == copied
    assert ignored[0] == "*"


def test_files_contain_no_secret_and_only_known_settings() -> None:
    assert FILES
    for file in FILES:
        text = file.read_text()
        used = set(re.findall(r"BELLWETHER_\w+", text)) - {"BELLWETHER_VERSION"}
        assert used <= SETTINGS, file.name
        for name, value in re.findall(r"(?<![{\w])(\w*(?:PASSWORD|SECRET|ACCESS_KEY|TOKEN)\w*):\s+\"?([^\s\"},]+)", text):
            assert value.startswith("${"), f"{file.name}: {name} has a literal value"
        assert not re.search(r"://\w*:[^$\s/@.]+@", text), file.name


# Compose


def test_services_are_pinned_and_linked() -> None:
    for name, service in SERVICES.items():
        tag = substituted(service["image"], {}).rpartition(":")[2]
        assert re.match(r"\d+\.\d+", tag), f"{name}: {service['image']} is not pinned"
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        assert all("healthcheck" in SERVICES[other] for other in service.get("depends_on", ()))
        assert all(volume.startswith("/") or volume.split(":")[0] in COMPOSE["volumes"] for volume in service.get("volumes", ()))
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_variables_that_hold_secrets_are_required() -> None:
    for service in SERVICES.values():
        for name, sign, default in VARIABLE.findall(yaml.safe_dump(service)):
            if SECRET.search(name):
                assert (sign, default) == ("?", ""), name


@pytest.mark.parametrize("name", ["ui", "worker"])
def test_a_service_runs_a_command_under_complete_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_command([str(word) for word in SERVICES[name]["command"]])
    given = {"POSTGRES_PASSWORD": "pg", "REDIS_PASSWORD": "rd", "BELLWETHER_WORKERS": "3"}
    for variable, value in SERVICES[name]["environment"].items():
        monkeypatch.setenv(variable, substituted(str(value), given))
    config = Settings(_env_file=None)  # type: ignore[call-arg]
    assert missing_settings(config) == []
    assert (config.fleet, config.workers, config.world) == ("celery", 3, "live")
    assert config.postgres and config.postgres.get_secret_value() == "postgresql://bellwether:pg@postgres:5432/bellwether"
    assert config.world_store == "s3://bellwether/files/live"
    assert {config.ui, config.broker.get_secret_value() if config.broker else ""} == {"http://ui:3000", "redis://:rd@redis:6379/0"}


def test_hosts_of_settings_are_services() -> None:
    for value in SERVICES["worker"]["environment"].values():
        for host in re.findall(r"(?:postgresql|redis|http)://(?:[^@\s]*@)?(\w+):\d+", str(value)):
            assert host in SERVICES


def test_the_broker_keeps_its_queue_and_one_daemon_runs() -> None:
    assert SERVICES["redis"]["command"][1:3] == ["--appendonly", "yes"]
    assert "deploy" not in SERVICES["ui"]
    assert SERVICES["worker"]["deploy"]["replicas"] == SERVICES["worker"]["environment"]["BELLWETHER_WORKERS"]


# Kubernetes


def snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def launcher_settings() -> dict[str, Any]:
    """Return the launcher configuration that the chart writes into dagster.yaml."""
    stated = VALUES["runLauncher"]["config"]["k8sRunLauncher"]
    renamed = {snake(name): value for name, value in stated.items()}
    renamed |= {name: [one["name"] for one in renamed[name]] for name in ("env_config_maps", "env_secrets")}
    renamed["run_k8s_config"] = {snake(name): value for name, value in stated["runK8sConfig"].items()}
    return renamed | {
        "service_account_name": VALUES["global"]["serviceAccountName"],
        "dagster_home": VALUES["global"]["dagsterHome"],
        "instance_config_map": "dagster-instance",
        "postgres_password_secret": VALUES["global"]["postgresqlSecretName"],
    }


def test_names_are_those_of_the_generated_dagster_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    generated = instance_settings(Settings(fleet="kubernetes", workers=4, store="s3://bellwether/files", world="live"))  # type: ignore[arg-type, call-arg]
    theirs, ours = launcher_settings(), generated["run_launcher"]["config"]
    for name in ("service_account_name", "instance_config_map", "dagster_home", "env_config_maps", "env_secrets"):
        assert theirs[name] == ours[name], name
    added = VALUES["additionalInstanceConfig"]
    assert added["concurrency"]["pools"] == generated["concurrency"]["pools"]
    assert added["concurrency"]["runs"] == generated["concurrency"]["runs"]
    monitoring = {snake(name): value for name, value in VALUES["dagsterDaemon"]["runMonitoring"].items()}
    assert {name: monitoring[name] for name in generated["run_monitoring"]} == generated["run_monitoring"]
    assert {snake(name): value for name, value in VALUES["dagsterDaemon"]["runRetries"].items()} == generated["run_retries"]
    logs = VALUES["computeLogManager"]["config"]["s3ComputeLogManager"]
    assert {name: logs[name] for name in ("bucket", "prefix")} == {
        name: generated["compute_logs"]["config"][name] for name in ("bucket", "prefix")
    }


def test_dagster_accepts_the_limits(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({**VALUES["additionalInstanceConfig"], "telemetry": VALUES["telemetry"]}))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.get_concurrency_config().run_queue_config is not None
    assert VALUES["dagsterDaemon"]["runCoordinator"] == {"enabled": False}


def test_pods_read_settings_and_the_code_location(monkeypatch: pytest.MonkeyPatch) -> None:
    (settings,) = (one["data"] for one in VALUES["extraManifests"] if one["metadata"]["name"] == "bellwether")
    for name, value in settings.items():
        assert isinstance(value, str), name
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BELLWETHER_POSTGRES", "postgresql://bellwether@postgres/bellwether")
    assert missing_settings(Settings(_env_file=None)) == []  # type: ignore[call-arg]
    (location,) = VALUES["dagster-user-deployments"]["deployments"]
    assert (location["name"], location["dagsterApiGrpcArgs"]) == (LOCATION, ["--module-name", CODE])
    for part in (location, VALUES["dagsterWebserver"], VALUES["dagsterDaemon"]):
        assert part["image"] == location["image"]
        assert part["podSecurityContext"]["runAsNonRoot"] is True
        assert part["envSecrets"] == [{"name": "bellwether"}]


def test_the_chart_has_the_version_of_the_package() -> None:
    assert f"--version {PINS['dagster']} " in (ROOT / "deploy" / "values.yaml").read_text()
