"""What stands in deploy/ and in the Dockerfile, checked without a cluster and without Docker."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from sidecar.settings.reader import read_settings

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPTS = [
    "deploy/demo", "deploy/lock", "deploy/build/environment.sh",
    "tests/run", "tests/bench/run", ".ci/run",
]  # fmt: skip


@pytest.mark.parametrize("path", sorted(KUBERNETES.glob("*.yaml")), ids=lambda path: path.name)
@pytest.mark.parametrize("release", ["1.29", "1.31", "1.33"])
def test_manifests_follow_the_api(path, release):
    for document in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(document, release, strict=True)


def pod():
    return yaml.safe_load((KUBERNETES / "pod.yaml").read_text())


def test_the_sidecar_is_a_native_sidecar_with_least_privileges():
    (sidecar,) = pod()["spec"]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= sidecar.keys()
    context = sidecar["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert (
        f"USER {context['runAsUser']}:{context['runAsGroup']}" in (ROOT / "Dockerfile").read_text()
    )
    assert not pod()["spec"]["automountServiceAccountToken"]


def test_the_configuration_in_the_config_map_is_good():
    data = yaml.safe_load((KUBERNETES / "configmap.yaml").read_text())["data"]
    settings = read_settings(data["sidecar.yaml"], "sidecar.yaml", {"ZONE": "bj-a"})
    port = settings.admin.address.rpartition(":")[2]
    assert pod()["metadata"]["annotations"]["prometheus.io/port"] == port
    (sidecar,) = pod()["spec"]["initContainers"]
    assert {"name": "admin", "containerPort": int(port)} in sidecar["ports"]
    grace = pod()["spec"]["terminationGracePeriodSeconds"]
    assert settings.drain.grace < grace


def test_the_dockerfile_passes_the_linter():
    linter = Path(sys.executable).with_name("hadolint")
    if subprocess.run([linter, "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("hadolint does not run on this machine")
    done = subprocess.run(
        [linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_valid_shell_and_say_what_they_do(script):
    path = ROOT / script
    done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = path.read_text().splitlines()
    assert lines[0 if script.endswith(".sh") else 1].startswith("# ")
    if not script.endswith(".sh"):
        assert path.stat().st_mode & 0o111


def locked(name):
    text = (ROOT / "deploy" / f"{name}.lock").read_text()
    pins = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE))
    assert text.count("--hash=sha256:") >= len(pins)
    return {canonicalize_name(package): Version(version) for package, version in pins.items()}


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("requirements", PROJECT["project"]["dependencies"]),
        ("requirements-build", PROJECT["build-system"]["requires"]),
        (
            "requirements-test",
            PROJECT["project"]["dependencies"]
            + PROJECT["project"]["optional-dependencies"]["test"]
            + PROJECT["build-system"]["requires"],
        ),
    ],
)
def test_lock_files_satisfy_the_project(lock, requirements):
    pins = locked(lock)
    for text in requirements:
        requirement = Requirement(text)
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not locked; run deploy/lock"
        assert pin in requirement.specifier, f"{requirement}: locked {pin}; run deploy/lock"


def test_lock_files_agree():
    everything = locked("requirements-test")
    for name in ("requirements", "requirements-build"):
        assert locked(name).items() <= everything.items()


def imported(path):
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def libraries(paths):
    """Return what the modules, and those that they import, take from outside."""
    found, seen, unread = set(), set(), list(paths)
    while unread:
        path = unread.pop()
        if path in seen or not (ROOT / path).is_file():
            continue
        seen.add(path)
        for name in imported(path):
            top = name.partition(".")[0]
            if top == "sidecar":
                unread.append(name.replace(".", "/") + ".py")
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found


def test_a_stray_package_file_above_the_build_does_no_harm(tmp_path):
    tree = tmp_path / "build"
    (tree / "sidecar").mkdir(parents=True)
    (tree / "deploy" / "build").mkdir(parents=True)
    for path in (tmp_path / "__init__.py", tree / "sidecar" / "__init__.py"):
        path.touch()
    (tree / "sidecar" / "one.py").write_text("NUMBER = 1\n")
    (tree / "sidecar" / "two.py").write_text("from sidecar.one import NUMBER as NUMBER\n")
    (tree / "pyproject.toml").write_text(
        '[tool.sidecar]\ncompiled = ["sidecar/one.py", "sidecar/two.py"]\n'
    )
    backend = tree / "deploy" / "build" / "compiled.py"
    backend.write_text((ROOT / "deploy" / "build" / "compiled.py").read_text())
    done = subprocess.run(
        [sys.executable, "-c", "import compiled; assert compiled.extensions()"],
        cwd=tree,
        env={"PYTHONPATH": str(backend.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_isolated_build_has_the_types_of_every_library():
    needed = libraries(PROJECT["tool"]["sidecar"]["compiled"])
    assert "msgspec" in needed
    untyped = PROJECT["tool"]["mypy"]["overrides"][0]["module"]
    needed -= {each.removesuffix(".*") for each in untyped}
    given = {Requirement(each).name for each in PROJECT["build-system"]["requires"]}
    given |= {"mypy_extensions"}  # comes with mypy
    stubs = {"yaml": "types-PyYAML"}
    assert {stubs.get(each, each) for each in needed} <= given
