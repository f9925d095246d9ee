"""`bellwether site`: build and serve the static site."""

from __future__ import annotations

from pathlib import Path

import click

from bellwether.console import console, shown
from bellwether.errors import ConfigError
from bellwether.settings import settings
from orchestration.site_server import HOST, open_site_server


@click.command()
@click.option("--serve", "serving", is_flag=True, help="Serve it on 127.0.0.1 until interrupted.")
@click.option("--port", default=8400, show_default=True, type=click.IntRange(0, 65535), help="Port of --serve; 0: a free one.")
def site(serving: bool, port: int) -> None:
    """Build the static site of the published warehouse.

    BELLWETHER_SITE sets its folder, which opens in a browser without a server and can be copied to any file host. Unchanged files are not rewritten.
    """
    from bellwether.site import build, local_folder

    folder = settings().site_path
    with shown() as progress:
        progress.say(f"building {folder}")
        built = build(settings().warehouse_uri, folder)
    size = f"{built.files:,} files, {built.bytes / 1e6:.1f} MB, {built.written:,} of them written"
    console().print(f"{built.folder / 'index.html'}: {size}", markup=False, soft_wrap=True)
    if serving:
        _serve(local_folder(built.folder), port)


def _serve(folder: Path, port: int) -> None:
    try:
        server = open_site_server(folder, port)
    except OSError as error:
        raise ConfigError(f"serving the site on port {port}: {error.strerror}; choose another with --port") from None
    with server:
        console().print(f"http://{HOST}:{server.server_port}/; Ctrl-C ends it", soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console().print("stopped")
