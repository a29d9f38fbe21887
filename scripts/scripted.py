"""A scripted chat-completions server for the scripts in this folder, and the replies it gives. Loopback only."""
import json
import re
import socket
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def text(content):
    """The model answers."""
    return HEAD + event({"content": content}) + event({}, "stop") + b"data: [DONE]\n\n"


_number = 0


def calls(*wanted):
    """The model calls tools: (name, arguments) each."""
    global _number
    out = HEAD
    for i, (name, arguments) in enumerate(wanted):
        _number += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        out += event({"tool_calls": [{"index": i, "id": f"call_{_number}", "type": "function", "function": function}]})
    return out + event({}, "tool_calls") + b"data: [DONE]\n\n"


def status(code, message):
    """The server refuses."""
    body = json.dumps({"error": {"message": message}}).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (code, len(body), body)


class Server:
    """Answers requests in order with whole responses and keeps the bodies; ends with the process."""

    def __init__(self, replies):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.replies, self.bodies, self.first_byte = list(replies), [], None
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def _serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection:
                self._answer(connection)

    def _answer(self, connection):
        data = connection.recv(65536)
        self.first_byte = self.first_byte or time.perf_counter()
        while data and b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        parts, have, length = [body], len(body), int(length[1]) if length else 0
        while have < length:
            parts.append(connection.recv(1 << 20))
            have += len(parts[-1])
        self.bodies.append(b"".join(parts))
        connection.sendall(self.replies.pop(0) if self.replies else status(418, "the script is over"))
