#!/usr/bin/env python3
"""DNS provider for trying the plugin: records as JSON over HTTP, for callers with the token s3cret.

usage: provider.py [PORT [FILE]]    a free port by default; FILE keeps the records over a restart

GET, PUT, DELETE /zones/DOMAIN/records/HOST/TYPE    a record: {"ttl": 300, "values": ["192.0.2.1"]}
GET /records                                        all records by path
GET /requests                                       the requests for records so far: [seconds, method, path, status]
POST /fault {"status": 503, "after": 1, "times": 2} the next answers, with Retry-After; 202: the work is done later
"""
import http.server
import json
import pathlib
import sys
import threading
import time

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 0
FILE = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
TOKEN = "s3cret"

lock = threading.Lock()
records = json.loads(FILE.read_text()) if FILE and FILE.exists() else {}
requests = []
fault = {"times": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with lock:
            status, answer, headers = self.control(body) if self.is_control() else self.record(body)
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": len(data)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_DELETE = do_POST = do

    def is_control(self):
        return self.path in ("/records", "/requests", "/fault")

    def control(self, body):
        if self.path == "/fault":
            fault.update(json.loads(body))
            return 200, fault, {}
        return 200, records if self.path == "/records" else requests, {}

    def record(self, body):
        status, answer, headers = self.judge(body)
        requests.append([time.time(), self.command, self.path, status])
        return status, answer, headers

    def judge(self, body):
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {"error": "wrong token"}, {}
        if fault["times"] > 0:
            fault["times"] -= 1
            return fault["status"], {"error": "later"}, {"retry-after": fault["after"]}
        found = self.path in records
        if self.command == "PUT":
            records[self.path] = json.loads(body)
        elif self.command == "DELETE" and found:
            del records[self.path]
        if FILE:
            FILE.write_text(json.dumps(records))
        if self.command == "PUT":
            return 200 if found else 201, records[self.path], {}
        return (200, records.get(self.path), {}) if found else (404, {"error": "no such record"}, {})

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
server.daemon_threads = True
print(f"provider ready: http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
