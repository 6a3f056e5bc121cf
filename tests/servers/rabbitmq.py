"""RabbitMQ as a private node: its own name, folder, ports, cookie and epmd; no plugins unless asked.

The node runs in the foreground with its Erlang shell on our pipe. So ``eval`` costs a few milliseconds where
``rabbitmqctl`` costs half a second, and the node ends when the pipe closes, a second guard beside the parent's death.
"""

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.servers.ports import free_port
from tests.servers.process import ServerError, ServerProcess, find_program, spawn
from tests.servers.waiting import wait_for

_BIN = "/usr/lib/rabbitmq/bin"  # past Debian's wrapper, which would change user and folder
_APT = "rabbitmq-server"


@dataclass(frozen=True)
class TlsFiles:
    """PEM files for a TLS listener."""

    ca: Path
    certificate: Path
    key: Path


class RabbitMQ(ServerProcess):
    """A private RabbitMQ node on 127.0.0.1.

    ``management`` enables rabbitmq_management (its API at ``management_url``). ``consumer_timeout_ms`` is looked at
    every second instead of every minute. ``advanced`` is the text of an advanced.config instead of that, ``conf``
    further lines of rabbitmq.conf. ``tls`` adds a listener at ``amqps_url``.
    """

    kind = "rabbitmq"

    def __init__(
        self,
        *,
        management: bool = False,
        consumer_timeout_ms: int | None = None,
        advanced: str | None = None,
        conf: Mapping[str, str] | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        self._server, self._ctl = find_program("rabbitmq-server", _APT, _BIN), find_program("rabbitmqctl", _APT, _BIN)
        self._epmd_program = find_program("epmd", _APT)
        super().__init__()
        self._ports = {name: free_port() for name in ("amqp", "dist", "epmd")}
        self._ports |= {"management": free_port()} if management else {}
        self._ports |= {"amqps": free_port()} if tls else {}
        self.node = f"slicelease-{self._ports['amqp'].number}@localhost"
        self._epmd: subprocess.Popen[bytes] | None = None
        self._marks = itertools.count(1)
        self._vhosts = itertools.count(1)
        if consumer_timeout_ms is not None:
            advanced = f"[{{rabbit,[{{consumer_timeout,{consumer_timeout_ms}}},{{channel_tick_interval,1000}}]}}].\n"
        self._write_settings(advanced, dict(conf or {}), tls)

    # Addresses

    @property
    def amqp_port(self) -> int:
        """The plain listener's port."""
        return self._ports["amqp"].number

    @property
    def url(self) -> str:
        """The default vhost's URL."""
        return self.vhost_url("/")

    @property
    def amqps_port(self) -> int:
        """The TLS listener's port (only with ``tls``)."""
        return self._ports["amqps"].number

    @property
    def amqps_url(self) -> str:
        """The default vhost's URL over TLS; the host is ``localhost``, as certificates say."""
        return f"amqps://guest:guest@localhost:{self.amqps_port}/%2F"

    @property
    def management_url(self) -> str:
        """The management API's base (only with ``management``), user and password ``guest``."""
        return f"http://127.0.0.1:{self._ports['management'].number}"

    def vhost_url(self, vhost: str) -> str:
        """Return a vhost's URL; ``vhost`` is a plain name or ``/``."""
        return f"amqp://guest:guest@127.0.0.1:{self.amqp_port}/{vhost.replace('/', '%2F')}"

    # Administration

    def ctl(self, *args: str, timeout_s: float = 60.0) -> str:
        """Run ``rabbitmqctl`` with ``args`` and return its output; raise ServerError when it fails."""
        command = [self._ctl, "--quiet", *args]
        ended = subprocess.run(command, env=self._env(), cwd=self.folder, capture_output=True, timeout=timeout_s)
        if ended.returncode != 0:
            raise ServerError(f"rabbitmqctl {' '.join(args)}: {(ended.stderr + ended.stdout).decode()}")
        return ended.stdout.decode()

    def eval(self, expression: str, deadline_s: float = 30.0) -> str:
        """Evaluate an Erlang expression in the node and return its value as text; raise ServerError on an exception."""
        return self._ask(expression, "~0tp", deadline_s)

    def eval_json(self, expression: str, deadline_s: float = 30.0) -> Any:
        """Evaluate an Erlang expression whose value is a map or list that JSON knows; return it decoded."""
        return json.loads(self._ask(f"rabbit_json:encode(begin {expression} end)", "~ts", deadline_s))

    def new_vhost(self) -> str:
        """Make a vhost of its own for a test (10 ms) and return its name."""
        name = f"test-{next(self._vhosts)}"
        everything = '<<".*">>, <<".*">>, <<".*">>'
        self.eval(
            f'ok = rabbit_vhost:add(<<"{name}">>, <<"test">>),'
            f'rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"{name}">>, {everything}, <<"test">>)'
        )
        return name

    def delete_vhost(self, vhost: str) -> None:
        """Delete a vhost with all that is in it; its connections are closed."""
        self.eval(f'rabbit_vhost:delete(<<"{vhost}">>, <<"test">>)')

    def queue_depths(self, vhost: str = "/") -> dict[str, int]:
        """Return every queue's number of messages in ``vhost``, ready and unacked together."""
        items = "[Name, proplists:get_value(messages, Info, 0)]"
        found = (
            f'[{items} || Info <- rabbit_amqqueue:info_all(<<"{vhost}">>, [name, messages]),'
            " {resource, _, queue, Name} <- [proplists:get_value(name, Info)]]"
        )
        return {str(name): int(count) for name, count in self.eval_json(found)}

    def close_connections(self, vhost: str = "/") -> int:
        """Make the server close every client connection of ``vhost``; return how many there were."""
        closed = (
            '[rabbit_networking:close_connection(proplists:get_value(pid, Info), <<"closed by a test">>) ||'
            " Info <- rabbit_networking:connection_info_all([pid, vhost]),"
            f' proplists:get_value(vhost, Info) =:= <<"{vhost}">>]'
        )
        return int(self.eval(f"length({closed})"))

    @contextlib.contextmanager
    def memory_alarm(self) -> Iterator[None]:
        """Hold the memory alarm for the time of the block: connections that publish are not read."""
        self._set_watermark("0.000001", alarmed=True)
        try:
            yield
        finally:
            self._set_watermark("0.4", alarmed=False)

    def _set_watermark(self, fraction: str, *, alarmed: bool) -> None:
        self.eval(f"vm_memory_monitor:set_vm_memory_high_watermark({fraction})")
        seen = f"memory alarm {'on' if alarmed else 'off'}"
        wait_for(lambda: (self.eval("rabbit_alarm:get_alarms()") != "[]") is alarmed, 15, seen)

    # The process

    def is_ready(self) -> bool:
        """Say whether the listener begins an AMQP handshake (booting ends with it) and the others asked for listen."""
        try:
            with socket.create_connection(("127.0.0.1", self.amqp_port), timeout=2) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(probe.recv(8)) and all(map(self._listens, self._ports.keys() & {"amqps", "management"}))
        except OSError:
            return False

    def release(self) -> None:
        """End epmd and give the ports back."""
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None
        for port in self._ports.values():
            port.release()

    def spawn_process(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start epmd when it is not there yet, then the node with its shell on a pipe."""
        if self._epmd is None or self._epmd.poll() is not None:
            epmd = [self._epmd_program, "-port", str(self._ports["epmd"].number), "-address", "127.0.0.1"]
            self._epmd = spawn(epmd, cwd=self.folder, stdout=log, stderr=log)
            wait_for(lambda: self._listens("epmd"), 10, "epmd listens")
        return spawn([self._server], env=self._env(), cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def _listens(self, name: str) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._ports[name].number)) == 0

    def _ask(self, expression: str, form: str, deadline_s: float) -> str:
        process = self._running()
        if process.stdin is None:
            raise ServerError("the node has no shell")
        mark, start = f"@{next(self._marks)}@", self.log.stat().st_size
        # The marks are printed from parts, so that an echo of the expression is not taken for its answer.
        answer = (
            f'try io_lib:format("ok {form}", [(fun() -> {expression} end)()])'
            ' catch Kind:Why -> io_lib:format("no ~0tp", [{Kind, Why}]) end'
        )
        process.stdin.write(f'io:format("~n~ts<~ts>~ts~n", ["{mark}", {answer}, "{mark}"]).\n'.encode())
        process.stdin.flush()
        verdict, _, value = wait_for(lambda: self._answer(mark, start), deadline_s, expression).partition(" ")
        if verdict != "ok":
            raise ServerError(f"{expression}: {value}")
        return value

    def _answer(self, mark: str, start: int) -> str | None:
        if not self.running:
            raise ServerError(f"the node is down\n{self.log_tail()}")
        with self.log.open("rb") as log:
            log.seek(start)
            output = log.read().decode(errors="replace")
        _, found, rest = output.partition(f"{mark}<")
        answer, complete, _ = rest.partition(f">{mark}")
        return answer if found and complete else None

    def _env(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),  # the cookie's place
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_ALLOW_INPUT": "1",  # keeps the shell, and makes the script exec the node
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "no-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_DIST_PORT": str(self._ports["dist"].number),
            "ERL_EPMD_PORT": str(self._ports["epmd"].number),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # Loopback only, and no busy waiting: the machine is shared.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        }

    def _write_settings(self, advanced: str | None, conf: dict[str, str], tls: TlsFiles | None) -> None:
        settings = {"listeners.tcp.1": f"127.0.0.1:{self.amqp_port}", "log.file": "node.log", "log.console": "false"}
        if "management" in self._ports:
            settings |= {"management.tcp.ip": "127.0.0.1", "management.tcp.port": str(self._ports["management"].number)}
        if tls is not None:
            settings |= {
                "listeners.ssl.1": f"127.0.0.1:{self.amqps_port}",
                "ssl_options.cacertfile": str(tls.ca),
                "ssl_options.certfile": str(tls.certificate),
                "ssl_options.keyfile": str(tls.key),
            }
        lines = "".join(f"{name} = {value}\n" for name, value in (settings | conf).items())
        (self.folder / "rabbitmq.conf").write_text(lines)
        (self.folder / "advanced.config").write_text(advanced or "[].\n")
        (self.folder / "no-env.conf").write_text("")
        plugins = "[rabbitmq_management].\n" if "management" in self._ports else "[].\n"
        (self.folder / "enabled_plugins").write_text(plugins)

    def wipe(self) -> None:
        """Forget all data of a stopped node, so that the next start is a first one."""
        if self.running:
            raise ServerError("stop the node before wiping it")
        shutil.rmtree(self.folder / "data", ignore_errors=True)
