"""Two hosts on one shaped link, made of network namespaces: veth, HTB with a class per lane, and eyes on what leaves the first host.

Needs root, iproute2 and a kernel with veth, HTB and u32 (what else there is differs between kernels, so nothing else is used).
"""
import contextlib
import ctypes
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys

SOURCE_ADDRESS, SINK_ADDRESS = "10.77.0.1", "10.77.0.2"
DSCP_HIGH, DSCP_LOW = 34, 10  # AF41, AF11: docs/format/WIRE.md
HIGH_CLASS, LOW_CLASS = "1:10", "1:20"


class Unsupported(Exception):
    """This machine can't make such hosts."""


def inside(host):
    """What a command line begins with to run on that host."""
    return ("ip", "netns", "exec", host)


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise Unsupported(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Hosts:
    """with Hosts() as hosts: ...; .source and .sink name the namespaces."""

    def __init__(self):
        self.source, self.sink = f"lynx-source-{os.getpid()}", f"lynx-sink-{os.getpid()}"

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unsupported("not root")
        try:
            for host in (self.source, self.sink):
                _run("ip", "netns", "add", host)
            _run("ip", "link", "add", "lane0", "netns", self.source, "type", "veth", "peer", "name", "lane0", "netns", self.sink)
            for host, address in ((self.source, SOURCE_ADDRESS), (self.sink, SINK_ADDRESS)):
                _run("ip", "-n", host, "address", "add", f"{address}/24", "dev", "lane0")
                _run("ip", "-n", host, "link", "set", "lane0", "up")
        except (Unsupported, OSError) as why:
            self.__exit__()
            raise Unsupported(str(why)) from None
        return self

    def __exit__(self, *_):
        for host in (self.source, self.sink):
            subprocess.run(["ip", "netns", "del", host], capture_output=True)

    def shape(self, rate_mbit):
        """What leaves the source: so many Mbit/s, the high lane's mark first."""
        tc = (*inside(self.source), "tc")
        subprocess.run([*tc, "qdisc", "del", "dev", "lane0", "root"], capture_output=True)
        _run(*tc, "qdisc", "add", "dev", "lane0", "root", "handle", "1:", "htb", "default", "20", "r2q", "1000")
        htb = ("htb", "ceil", f"{rate_mbit}mbit", "rate")
        _run(*tc, "class", "add", "dev", "lane0", "parent", "1:", "classid", "1:1", *htb, f"{rate_mbit}mbit")
        _run(*tc, "class", "add", "dev", "lane0", "parent", "1:1", "classid", HIGH_CLASS, *htb, f"{rate_mbit * 9 // 10}mbit", "prio", "0")
        _run(*tc, "class", "add", "dev", "lane0", "parent", "1:1", "classid", LOW_CLASS, *htb, f"{rate_mbit // 10}mbit", "prio", "1")
        _run(*tc, "filter", "add", "dev", "lane0", "parent", "1:", "protocol", "ip", "prio", "1",
             "u32", "match", "ip", "tos", hex(DSCP_HIGH << 2), "0xfc", "flowid", HIGH_CLASS)

    def class_bytes(self):
        """Bytes each class has let through since shape(): {"1:10": ..., "1:20": ...}."""
        text = _run(*inside(self.source), "tc", "-s", "class", "show", "dev", "lane0")
        return {name: int(sent) for name, sent in re.findall(r"class htb (\S+) .*?\n Sent (\d+) bytes", text)}

    @contextlib.contextmanager
    def capture(self, priority):
        """Counts, while it is open, the packets that leave the source with that SO_PRIORITY, by DSCP."""
        process = subprocess.Popen([*inside(self.source), sys.executable, __file__, str(priority)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        counts = {}
        try:
            if not process.stdout.readline():
                raise Unsupported("packets can't be captured")
            yield counts
        finally:
            out, _ = process.communicate(timeout=30)  # closes its stdin, which ends it
        counts.update({int(dscp): n for dscp, n in json.loads(out).items()})


def _priority_filter(priority):
    """A loaded eBPF socket filter that lets packets of that skb->priority through, which no header shows."""
    def instruction(code, destination, source, offset, value):
        return struct.pack("<BBhi", code, destination | source << 4, offset, value)
    priority_of_skb = 32  # offset of __sk_buff.priority
    program = ctypes.create_string_buffer(b"".join([
        instruction(0x61, 0, 1, priority_of_skb, 0),  # r0 = skb->priority
        instruction(0x15, 0, 0, 2, priority),         # if r0 == priority goto take
        instruction(0xb7, 0, 0, 0, 0),                # r0 = 0
        instruction(0x95, 0, 0, 0, 0),                # drop
        instruction(0xb7, 0, 0, 0, 0xffff),           # take: r0 = 65535
        instruction(0x95, 0, 0, 0, 0)]))
    license_text = ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack("<IIQQIIQI", 1, 6, ctypes.addressof(program), ctypes.addressof(license_text), 0, 0, 0, 0)
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(number, 5, attributes, len(attributes))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return descriptor


def _capture(priority):
    attach_bpf, outgoing, ipv4 = 50, 4, 0x0800
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    packets.setsockopt(socket.SOL_SOCKET, attach_bpf, _priority_filter(priority))
    counts = {}
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([packets, sys.stdin], [], [])
        if sys.stdin in ready:  # its end
            break
        packet, address = packets.recvfrom(64)
        if address[1] == ipv4 and address[2] == outgoing:
            counts[packet[1] >> 2] = counts.get(packet[1] >> 2, 0) + 1
    print(json.dumps(counts))


if __name__ == "__main__":
    _capture(int(sys.argv[1]))
