"""`pybroker console`: the web console, a separate process."""

from __future__ import annotations

from pathlib import Path

import click

from pybroker.cli.options import refusals_told
from pybroker.cli.output import say
from pybroker.cli.target import ADDRESS_VARIABLE, BOOTSTRAP_SERVER, address_option, target_of
from pybroker.version import packages_of


@click.command()
@address_option(
    f"Address of a broker of the cluster; default: {ADDRESS_VARIABLE}, a profile (docs/cli.md), {BOOTSTRAP_SERVER}."
)
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=(
        "Client settings file (Kafka's names). With security.protocol=SASL_… users log in with their broker "
        "credentials."
    ),
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 selects a free port.",
)
@click.option(
    "--without-login",
    is_flag=True,
    help=(
        "Allow access without a login. Every visitor, also from other machines, acts with the rights of "
        "--command-config."
    ),
)
@click.option(
    "--host-name", "host_names", multiple=True, metavar="NAME", help="Host name to accept in requests; repeatable."
)
@click.option(
    "--idle-timeout", default=30, show_default=True, type=click.IntRange(1, 720), metavar="MINUTES",
    help="Log users out after this time without activity.",
)  # fmt: skip
@click.option(
    "--metrics-url", "metrics_urls", multiple=True, metavar="URL",
    help="URL of a broker's /metrics, for charts of requests and errors; repeatable.",
)  # fmt: skip
@click.option("--certificate", type=click.Path(dir_okay=False), help="Serve HTTPS with this certificate chain (PEM).")
@click.option("--key", type=click.Path(dir_okay=False), help="Private key of --certificate (PEM).")
def console(
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    listen: str,
    without_login: bool,
    host_names: tuple[str, ...],
    idle_timeout: int,
    metrics_urls: tuple[str, ...],
    certificate: str | None,
    key: str | None,
) -> None:
    """Serve the web console.

    It shows topics, records, groups, deletions, brokers and access rights in a browser.
    """
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 65536):
        raise click.UsageError(f"--listen {listen}: expected HOST:PORT.")
    for url in metrics_urls:
        if not url.startswith(("http://", "https://")):
            raise click.UsageError(f"--metrics-url {url}: expected http://HOST:PORT/metrics.")
    try:
        from pybroker.console.console_settings import ConsoleSettings
        from pybroker.console.serve import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "pybroker":
            raise
        needs = f"The web console needs the package {error.name}: pip install {packages_of('console')}"
        raise click.ClickException(needs) from None
    target = target_of(bootstrap_server, command_config, json=False)
    settings = ConsoleSettings(
        client_config=target.client_config(),
        host=host.removeprefix("[").removesuffix("]"),
        port=int(port),
        without_login=without_login,
        host_names=host_names,
        idle_timeout_s=idle_timeout * 60.0,
        metrics_urls=metrics_urls,
        certificate=certificate,
        key=key,
    )
    with refusals_told():
        serve(settings, lambda address: say(f"The console of {target.bootstrap_server} is at {address}"))
