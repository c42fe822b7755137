import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import sidecar
import sidecar.admin.client
from sidecar.cli import cli
from sidecar.demo.stage import same_package
from sidecar.model.errors import SidecarError
from sidecar.settings.json_schema import settings_schema

CONFIG = Path(__file__).parents[2] / "config"
EXPLANATION = {
    "service": "a.B",
    "protocol": "dubbo",
    "epoch": 7,
    "steps": [{"router": "tag", "in": 6, "out": 2, "reason": "tagged", "excluded": []}],
    "eligible": ["127.0.0.1:1"],
    "picked_by": "random",
    "reason": "",
}


def invoke(*arguments):
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("name", ["minimal.yaml", "full.yaml"])
def test_check_of_a_good_file(name):
    result = invoke("check", "--config", str(CONFIG / name))
    assert (result.exit_code, result.stdout) == (0, f"{CONFIG / name}: good\n")


def test_check_lists_every_problem_and_ends_with_2(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("registrys: []\nlog: {level: loud}\n")
    result = invoke("check", "--config", str(path))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{path}:1:1: missing key 'registries'",
        f"{path}:1:1: unknown key 'registrys'; did you mean 'registries'?",
        f"{path}:2:14: unknown value 'loud'; known are debug, error, info, warning",
    ]


TLS = """registries: [{{name: a, url: "file:///r"}}]
listeners:
  - address: "127.0.0.1:1"
  - {{protocol: triple, address: "127.0.0.1:2", tls: {{certificate: "{chain}", key: "{key}"}}}}
upstream:
  tls:
    ca: "{ca}"
"""


def test_check_reads_certificates_and_keys(tmp_path, certificates):
    chain, key = certificates.server
    path = tmp_path / "tls.yaml"
    path.write_text(TLS.format(chain=chain, key=key, ca=certificates.authority))
    assert invoke("check", "--config", str(path)).exit_code == 0
    path.write_text(TLS.format(chain=chain, key=certificates.client.key, ca=key))
    result = invoke("check", "--config", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    column = 67 + len(f'"{chain}", key: ')
    assert result.stderr.splitlines() == [
        f"{path}:4:{column}: {certificates.client.key}: not the key of {chain}",
        f"{path}:7:9: {key}: has no certificate in PEM form",
    ]


def test_a_file_that_is_on_another_machine_is_only_noted(tmp_path, certificates):
    path = tmp_path / "tls.yaml"
    none = str(tmp_path / "none")
    path.write_text(TLS.format(chain=none, key=none, ca=certificates.authority))
    result = invoke("check", "--config", str(path))
    assert (result.exit_code, result.stdout) == (0, f"{path}: good\n")
    note = "; it has to be there when the sidecar starts"
    assert result.stderr == f"{path}:4:67: {none}: No such file or directory{note}\n"


def test_sigterm_before_the_program_runs_ends_it_with_0():
    code = """if True:
        import os, signal
        import sidecar.app
        from sidecar.cli import main
        sidecar.app.serve = lambda settings: os.kill(os.getpid(), signal.SIGTERM)
        main()
    """
    arguments = ("run", "--config", str(CONFIG / "minimal.yaml"))
    command = (sys.executable, "-P", "-c", code, *arguments)
    assert subprocess.run(command, env=same_package(), check=False).returncode == 0


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_file_that_cannot_be_read(tmp_path, command):
    result = invoke(command, "--config", str(tmp_path / "none.yaml"))
    assert (result.exit_code, result.stderr) == (
        2,
        f"{tmp_path}/none.yaml: No such file or directory\n",
    )
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    result = invoke(command, "--config", str(tmp_path / "latin.yaml"))
    assert (result.exit_code, result.stderr) == (
        2,
        f"{tmp_path}/latin.yaml:1:1: not UTF-8 (byte 3)\n",
    )
    result = invoke(command, "--config", str(tmp_path))
    assert (result.exit_code, result.stderr) == (2, f"{tmp_path}: Is a directory\n")


def test_a_huge_file_is_not_read_whole(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(10**10)
    result = invoke("check", "--config", str(path))
    assert (result.exit_code, result.stderr) == (2, f"{path}:1:1: larger than 256 KiB\n")


def test_usage_errors_end_with_2():
    assert invoke("check").exit_code == 2
    assert invoke("fly").exit_code == 2
    assert invoke("explain", "--service", "a.B", "--attachment", "x").exit_code == 2
    assert invoke("explain", "--service", "a.B", "--attachment", "=x").exit_code == 2
    assert invoke("explain", "--service", "a.B", "--protocol", "tri").exit_code == 2


def test_schema_and_version():
    assert json.loads(invoke("schema").stdout) == settings_schema()
    assert invoke("version").stdout.startswith(f"sidecar {sidecar.VERSION} (Python 3.")


def test_explain_prints_a_table_or_json(monkeypatch):
    asked = []

    def ask(url):
        asked.append(url)
        return EXPLANATION

    monkeypatch.setattr(sidecar.admin.client, "ask", ask)
    arguments = [
        "explain",
        "--service",
        "g/a.B:1",
        "--method",
        "m",
        "--attachment",
        "dubbo.tag=a b",
    ]
    arguments += ["--admin", "http://127.0.0.1:9/"]
    assert "tag      6    2  tagged" in invoke(*arguments).stdout
    assert json.loads(invoke(*arguments, "--json").stdout) == EXPLANATION
    query = "service=g%2Fa.B%3A1&method=m&attachment=dubbo.tag%3Da+b"
    assert set(asked) == {f"http://127.0.0.1:9/explain?{query}"}
    invoke(*arguments, "--protocol", "triple")
    assert asked[-1] == f"http://127.0.0.1:9/explain?{query}&protocol=triple"


def test_explain_without_a_sidecar(monkeypatch):
    def ask(url):
        raise SidecarError("no sidecar answers")

    monkeypatch.setattr(sidecar.admin.client, "ask", ask)
    result = invoke("explain", "--service", "a.B")
    assert (result.exit_code, result.stderr) == (1, "no sidecar answers\n")
