"""Attaches /dev/nbd0 to the export `disk` of a server, and again to the same server whenever the connection breaks.

    attach.py HOST PORT

The kernel holds requests back while no connection is left, and repeats those that had no answer. nbd-client
never uses this part of the kernel's interface (NBD_CMD_RECONFIGURE).
"""

import select
import socket
import struct
import sys
import time

ANSWER_SECONDS = 5  # then a request counts as lost, and its connection too
DEAD_SECONDS = 90  # then the device fails its requests
BLOCK = 4096

# include/uapi/linux/netlink.h, genetlink.h and nbd-netlink.h
REQUEST, ACK = 1, 4
ERROR = 2
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
CONNECT, RECONFIGURE = 1, 3
INDEX, SIZE, BLOCK_SIZE, TIMEOUT, FLAGS, SOCKETS, DEAD_TIMEOUT = 1, 2, 3, 4, 5, 7, 8
ITEM, FILE = 1, 1


def attribute(kind, value):
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def u32(value):
    return struct.pack("=I", value)


def u64(value):
    return struct.pack("=Q", value)


def call(kernel, family, command, attributes):
    """Sends one request; the attributes of the answer, or of nothing where only an error code answers."""
    body = struct.pack("=BBH", command, 1, 0) + attributes
    kernel.send(struct.pack("=IHHII", 16 + len(body), family, REQUEST | ACK, 1, 0) + body)
    answer = b""
    while True:
        messages = kernel.recv(65536)
        while messages:
            length, kind = struct.unpack_from("=IH", messages)
            if kind == ERROR:
                (code,) = struct.unpack_from("=i", messages, 16)
                if code:
                    raise OSError(-code, f"netlink command {command}")
                return answer
            answer = messages[20:length]
            messages = messages[(length + 3) & ~3 :]


def family_of(kernel, name):
    answer = call(kernel, CONTROL, GET_FAMILY, attribute(FAMILY_NAME, name + b"\0"))
    while answer:
        length, kind = struct.unpack_from("=HH", answer)
        if kind == FAMILY_ID:
            return struct.unpack_from("=H", answer, 4)[0]
        answer = answer[(length + 3) & ~3 :]
    raise OSError("the kernel has no nbd module")


def receive(server, length):
    data = server.recv(length, socket.MSG_WAITALL)
    if len(data) < length:
        raise ConnectionError("the server hung up")
    return data


def connect(address):
    """A connection past the handshake, the export's bytes and its flags."""
    server = socket.create_connection(address, timeout=5)
    receive(server, 18)
    option = struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 4) + b"disk"
    server.sendall(option)
    size, flags = struct.unpack(">QH", receive(server, 10))
    server.setblocking(True)
    return server, size, flags


def connect_at_last(address):
    while True:
        try:
            return connect(address)
        except OSError:
            time.sleep(0.2)


def sockets(server):
    return attribute(SOCKETS, attribute(ITEM, attribute(FILE, u32(server.fileno()))))


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    kernel.bind((0, 0))
    family = family_of(kernel, b"nbd")
    server, size, flags = connect(address)
    device = attribute(INDEX, u32(0))
    shape = [(SIZE, size), (BLOCK_SIZE, BLOCK), (FLAGS, flags), (TIMEOUT, ANSWER_SECONDS), (DEAD_TIMEOUT, DEAD_SECONDS)]
    attributes = b"".join(attribute(kind, u64(value)) for kind, value in shape)
    call(kernel, family, CONNECT, device + attributes + sockets(server))
    while True:
        broken = select.poll()
        broken.register(server, select.POLLRDHUP)
        broken.poll()
        server.close()
        server, _, _ = connect_at_last(address)
        call(kernel, family, RECONFIGURE, device + sockets(server))
        print("guest: connected again", flush=True)


main()
