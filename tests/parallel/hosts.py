"""Two hosts made of this machine: network namespaces with names and addresses of their own, and sshd in each."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = {"ip": "iproute2", "sshd": "openssh-server", "ssh": "openssh-client", "unshare": "util-linux"}


def missing() -> str:
    """Say what keeps hosts from being made here, or an empty string."""
    packages = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    if packages:
        return f"needs apt-get install {' '.join(packages)}"
    return "" if os.getuid() == 0 else "only root may make network namespaces"


@dataclass(frozen=True, kw_only=True)
class Network:
    """Hosts on one bridge with this machine.

    Attributes
    ----------
    hosts
        Their names.
    launcher
        A program that starts a command on one of them, as ssh does.
    """

    hosts: tuple[str, ...]
    launcher: Path

    def cut(self, host: str) -> None:
        """Pull a host's plug."""
        _ip("link", "set", _cable(host), "down")

    def mend(self, host: str) -> None:
        """Put it in again."""
        _ip("link", "set", _cable(host), "up")


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator[Network]:
    """Make two hosts, and take them away again; files that they need are in a folder."""
    number = os.getpid() % 65536
    bridge = f"cl{number}"
    # 198.18.0.0/15 is for tests between networks (RFC 2544); this machine is .254.
    subnet = f"198.{18 + number % 2}.{number // 2 % 256}"
    addresses = {f"cl{number}-{place}": f"{subnet}.{place}" for place in (1, 2)}
    with contextlib.ExitStack() as stack:
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "delete", bridge)
        _ip("address", "add", f"{subnet}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        known = {**addresses, socket.gethostname(): f"{subnet}.254", "localhost": "127.0.0.1"}
        _keys(folder, addresses)
        for host, address in addresses.items():
            # `ip netns exec` puts this folder's files in the place of those in /etc.
            etc = Path("/etc/netns", host)
            etc.mkdir(parents=True)
            stack.callback(shutil.rmtree, etc)
            # As on many systems, the host's own name leads to itself only.
            others = {name: where for name, where in known.items() if name != host} | {host: "127.0.1.1"}
            etc.joinpath("hosts").write_text("".join(f"{where} {name}\n" for name, where in others.items()))
            _ip("netns", "add", host)
            stack.callback(_ip, "netns", "delete", host)
            _ip("link", "add", _cable(host), "type", "veth", "peer", "name", "eth0", "netns", host)
            stack.callback(_ip, "link", "delete", _cable(host))
            _ip("link", "set", _cable(host), "master", bridge, "up")
            _ip("-netns", host, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-netns", host, "link", "set", device, "up")
            stack.enter_context(_sshd(folder, host, address))
        script = folder / "ssh"
        script.write_text(f'#!/bin/sh\nexec ssh -F {folder}/client "$@"\n')
        script.chmod(0o755)
        yield Network(hosts=tuple(addresses), launcher=script)


def _cable(host: str) -> str:
    return host.replace("-", "v")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _keys(folder: Path, addresses: dict[str, str]) -> None:
    """Write a key for hosts and user alike, and what client and servers need to know."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text()
    folder.joinpath("known").write_text("".join(f"{host} {public}" for host in addresses))
    client = [f"Host {host}\n HostName {address}\n HostKeyAlias {host}" for host, address in addresses.items()]
    client += [
        "Host *", f" IdentityFile {key}", f" UserKnownHostsFile {folder}/known", " StrictHostKeyChecking yes",
        " BatchMode yes", " ConnectTimeout 5",
    ]  # fmt: skip
    folder.joinpath("client").write_text("\n".join(client) + "\n")
    server = [
        f"HostKey {key}", f"AuthorizedKeysFile {key}.pub", "StrictModes no", "UsePAM no", "PidFile none",
        "PasswordAuthentication no", "PermitRootLogin prohibit-password",
    ]  # fmt: skip
    folder.joinpath("server").write_text("\n".join(server) + "\n")


@contextlib.contextmanager
def _sshd(folder: Path, host: str, address: str) -> Iterator[None]:
    Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd")
    serve = f"exec ip netns exec {host} {program} -D -e -f {folder}/server -o ListenAddress={address}"
    # A host has a name of its own.
    command = ["unshare", "--uts", "sh", "-c", f"hostname {host} && {serve}"]
    with (folder / f"{host}.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _until_it_answers(address)
        yield
    finally:
        # With it whatever it has started: a session whose other end was cut off would wait for hours.
        left = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout
        for pid in left.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        server.wait()


def _until_it_answers(address: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, 22), timeout=2).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
