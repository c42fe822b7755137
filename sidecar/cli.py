"""The command line; the only module that knows click.

Exit codes: 0 fine, 2 usage or configuration, 1 anything else. What only one command needs is
imported by that command: `check` has no use for an event loop.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import urllib.parse
from pathlib import Path
from typing import Final, NoReturn

import click

from sidecar import VERSION
from sidecar.model.errors import ConfigError, SidecarError
from sidecar.model.protocol import NAMES
from sidecar.settings.document import MAX_TEXT, locate, parse_document
from sidecar.settings.json_schema import settings_schema
from sidecar.settings.reader import read_settings
from sidecar.settings.schema import Settings
from sidecar.telemetry.build import build_kind

DEFAULT_ADMIN: Final = "http://127.0.0.1:15021"
MAX_EXCLUDED: Final = 5  # of each step in a table; --json has more
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_config_option: Final = click.option(
    "--config",
    "config",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration file.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """A sidecar that routes the calls of a Dubbo consumer."""


@cli.command()
@_config_option
def run(config: Path) -> None:
    """Run the sidecar until SIGTERM."""
    settings = _settings(config)
    # Until the program takes signals itself. Without a handler the first process of a container
    # would not end at all.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from sidecar.app import serve

    try:
        serve(settings)
    except SidecarError as error:
        _fail(str(error), EXIT_FAILED)


@cli.command()
@_config_option
def check(config: Path) -> None:
    """Check a configuration file and list every problem as FILE:LINE:COLUMN: text.

    Certificates and keys that it names are read too. One that is not there is noted and no problem:
    the check may run on another machine.
    """
    settings = _settings(config)
    from sidecar.proxy.tls import tls_problems

    root, _ = parse_document(_text(config))
    is_good = True
    for path, error in tls_problems(settings):
        line, column = locate(root, path)
        note = "; it has to be there when the sidecar starts" if error.is_missing else ""
        click.echo(f"{config}:{line}:{column}: {error}{note}", err=True)
        is_good = is_good and error.is_missing
    if not is_good:
        sys.exit(EXIT_USAGE)
    click.echo(f"{config}: good")


@cli.command()
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    click.echo(json.dumps(settings_schema(), indent=2))


@cli.command()
@click.option(
    "--registry",
    default="",
    metavar="URL",
    help="zookeeper://host:port to use a running ZooKeeper, or `file`; default: start a private"
    " ZooKeeper if this machine has one, else use a file.",
)
def demo(registry: str) -> None:
    """Show the main job with nothing installed: providers, a registry, a sidecar, a consumer."""
    from sidecar.demo.story import tell

    try:
        sys.exit(tell(registry, click.echo))
    except SidecarError as error:
        _fail(str(error), EXIT_FAILED)


@cli.command()
@click.option("--service", required=True, metavar="KEY", help="[group/]interface[:version]")
@click.option("--method", default="", help="The method's name.")
@click.option("--attachment", "attachments", multiple=True, metavar="K=V", help="Repeatable.")
@click.option(
    "--protocol",
    type=click.Choice(list(NAMES.values())),
    help="Of the call. Default: dubbo, unless the service has triple instances only.",
)
@click.option("--admin", default=DEFAULT_ADMIN, show_default=True, help="URL of the admin server.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as it came.")
def explain(
    service: str,
    method: str,
    attachments: tuple[str, ...],
    protocol: str | None,
    admin: str,
    as_json: bool,
) -> None:
    """Ask a running sidecar where a call would go, and why."""
    for text in attachments:
        if "=" not in text.lstrip("="):
            raise click.BadParameter(f"{text!r} is not of the form K=V", param_hint="--attachment")
    query = [("service", service), ("method", method)]
    query += [("attachment", text) for text in attachments]
    query += [("protocol", protocol)] if protocol else []
    from sidecar.admin.client import ask
    from sidecar.admin.explained import explanation_table

    try:
        answer = ask(f"{admin.rstrip('/')}/explain?{urllib.parse.urlencode(query)}")
    except SidecarError as error:
        _fail(str(error), EXIT_FAILED)
    click.echo(json.dumps(answer, indent=2) if as_json else explanation_table(answer, MAX_EXCLUDED))


@cli.command()
def version() -> None:
    """Print the version."""
    click.echo(f"sidecar {VERSION} (Python {platform.python_version()}, {build_kind()})")


def main() -> None:
    """Run the command line."""
    cli(prog_name="sidecar")


def _settings(path: Path) -> Settings:
    """Read the file; ends the program with code 2 when it is not good."""
    try:
        return read_settings(_text(path), str(path), os.environ)
    except ConfigError as error:
        _fail(str(error), EXIT_USAGE)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * MAX_TEXT + 1).decode()  # UTF-8 has up to four bytes a character
    except OSError as error:
        _fail(f"{path}: {error.strerror}", EXIT_USAGE)
    except UnicodeDecodeError as error:
        _fail(f"{path}:1:1: not UTF-8 (byte {error.start})", EXIT_USAGE)


def _fail(text: str, code: int) -> NoReturn:
    click.echo(text, err=True)
    sys.exit(code)
