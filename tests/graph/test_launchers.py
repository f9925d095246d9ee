"""Runs of a fleet on Kubernetes: the job that the launcher creates, with the settings of dagster.yaml and with those of the chart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from bellwether.settings import Fleet
from orchestration.fleet import instance_settings
from tests.unit.orchestration.test_deploy import VALUES, launcher_settings
from tests.unit.orchestration.test_fleet import SECRET, config

if TYPE_CHECKING:
    from dagster_k8s import K8sRunLauncher

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {}}],
}


@dg.job
def nothing() -> None:
    """Job without steps."""


class Cluster:
    """A Kubernetes API that records jobs and reports their state."""

    def __init__(self) -> None:
        from kubernetes import client

        self.jobs: list[tuple[str, Any]] = []
        self.status = client.V1JobStatus(active=1)

    def create_namespaced_job(self, body: Any, namespace: str, **options: Any) -> None:
        self.jobs.append((namespace, body))

    def read_namespaced_job_status(self, name: str, namespace: str, **options: Any) -> Any:
        from kubernetes import client

        return client.V1Job(status=self.status)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def launch(
    instance: dg.DagsterInstance, cluster: Cluster, settings: dict[str, Any]
) -> tuple[dict[str, Any], dg.DagsterRun, K8sRunLauncher]:
    """Launch a run with these settings. Returns its job, the run and the launcher."""
    from dagster_k8s import K8sRunLauncher
    from dagster_k8s.launcher import LaunchRunContext

    folder = Path(instance.root_directory)
    (folder / "kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
    place = {"load_incluster_config": False, "kubeconfig_file": str(folder / "kubeconfig")}
    launcher = K8sRunLauncher(**settings, **place, k8s_client_batch_api=cluster, k8s_client_core_api=object())
    launcher.register_instance(instance)
    run = instance.create_run_for_job(nothing, job_code_origin=dg.reconstructable(nothing).get_python_origin())
    launcher.launch_run(LaunchRunContext(run, workspace=None))
    ((namespace, job),) = cluster.jobs
    assert namespace == "default"
    return job.to_dict(), run, launcher


def test_a_run_is_a_job_without_root_and_with_secrets_by_name(instance: dg.DagsterInstance) -> None:
    assert VALUES["runLauncher"]["type"] == "K8sRunLauncher"
    image = VALUES["dagster-user-deployments"]["deployments"][0]["image"]
    job, _, _ = launch(instance, Cluster(), {**launcher_settings(), "job_image": f"{image['repository']}:{image['tag']}"})
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.org/bellwether:0.3.0"
    assert [one["config_map_ref"]["name"] for one in container["env_from"] if one["config_map_ref"]] == ["bellwether"]
    assert [one["secret_ref"]["name"] for one in container["env_from"] if one["secret_ref"]] == ["bellwether"]
    (password,) = (one for one in container["env"] if one["name"] == "DAGSTER_PG_PASSWORD")
    assert password["value_from"]["secret_key_ref"] == {"key": "postgresql-password", "name": "dagster-postgresql-secret", "optional": None}
    assert pod["security_context"]["run_as_non_root"] is True
    assert container["security_context"]["allow_privilege_escalation"] is False
    assert {one["mount_path"]: one["name"] for one in container["volume_mounts"]}["/var/lib/bellwether"] == "home"
    assert container["resources"]["limits"] == {"memory": "8Gi"}
    assert job["spec"]["ttl_seconds_after_finished"] == 86400
    assert pod["service_account_name"] == "dagster"


def test_a_run_of_a_fleet_has_its_settings_and_no_secret_and_a_failed_job_is_a_lost_run(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    from kubernetes import client

    cluster, settings = Cluster(), instance_settings(config(tmp_path, fleet=Fleet.KUBERNETES))["run_launcher"]["config"]
    assert settings["job_image"] == {"env": "DAGSTER_CURRENT_IMAGE"}
    job, run, launcher = launch(instance, cluster, {**settings, "job_image": "registry.example/bellwether:0.3.0"})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/bellwether:0.3.0"
    assert container["args"][:3] == ["dagster", "api", "execute_run"] and run.run_id in container["args"][3]
    assert [one["name"] for one in container["env"] if one["value"] == "/opt/dagster/dagster_home"] == ["DAGSTER_HOME"]
    assert SECRET not in json.dumps(job, default=str)
    statuses = []
    for status in (client.V1JobStatus(active=1), client.V1JobStatus(failed=1)):
        cluster.status = status
        statuses.append(launcher.check_run_worker_health(run).status.name)
    assert statuses == ["RUNNING", "FAILED"]
