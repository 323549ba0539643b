import gc
import socket

from tests.chaos.proxy import Proxy
from trackside.embedded.ports import HOST, free_ports


def test_connections_that_come_while_a_proxy_ends_are_closed() -> None:
    with socket.create_server((HOST, 0)) as upstream:
        for _ in range(10):
            port = free_ports(1)[0]
            with Proxy(port, lambda: int(upstream.getsockname()[1])):
                clients = [socket.create_connection((HOST, port)) for _ in range(3)]
            for client in clients:
                client.close()
    gc.collect()  # tells of sockets that nothing refers to and that are open
