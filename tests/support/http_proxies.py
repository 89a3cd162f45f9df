"""nginx and HAProxy as reverse proxies that keep and reuse a few upstream connections."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.ports import free_port

Address = tuple[str, int]
_INSTALL = "apt-get install nginx haproxy"

_NGINX = """
daemon off;
worker_processes 1;
error_log stderr crit;
pid {place}/pid;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {place}/body;
  proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi;
  scgi_temp_path {place}/scgi;
  client_max_body_size 0;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream jetgate {{ server {host}:{port}; keepalive 2; }}
  server {{
    listen 127.0.0.1:{listen};
    location / {{
      proxy_pass http://jetgate;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_buffering off;
      proxy_set_header Host localhost;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }}
  }}
}}
"""

_HAPROXY = """
global
  maxconn 256
defaults
  mode http
  http-reuse always
  timeout connect 10s
  timeout client 60s
  timeout server 60s
  timeout tunnel 60s
frontend all
  bind 127.0.0.1:{listen}
  default_backend jetgate
backend jetgate
  server one {host}:{port} maxconn 8
"""

PROXIES = {"nginx": _NGINX, "haproxy": _HAPROXY}


@contextlib.contextmanager
def proxy(name: str, to: Address) -> Iterator[Address]:
    """Run a reverse proxy for the HTTP server at `to`; yield the host and port of the proxy.

    `name` is `nginx` or `haproxy`. Skips the test if that program is not installed.
    """
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{name} is not here ({_INSTALL})")
    listen = free_port()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as place:
        config = Path(place) / "config"
        text = PROXIES[name].format(place=place, host=to[0], port=to[1], listen=listen)
        config.write_text(text)
        which = "-c" if name == "nginx" else "-f"
        command = [program, which, str(config)] + (["-db"] if name == "haproxy" else [])
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=place)
        try:
            eventually(lambda: listens(listen))
            yield ("127.0.0.1", listen)
        finally:
            process.terminate()
            process.wait(60)


def listens(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
        return True
    return False
