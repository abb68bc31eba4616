#!/usr/bin/env python3
"""Gives tokens for a registry, as the specification of distribution says: to one login for everything, to everyone for nothing.

usage: registry_tokens.py NAME:PASSWORD KEY.pem CERTIFICATE.pem

Prints its port on loopback first, and then a line for each request: the scopes that were granted. openssl signs.
"""
import base64
import http.server
import json
import subprocess
import sys
import time
import urllib.parse

login, key, certificate = sys.argv[1:]
expected = "Basic " + base64.b64encode(login.encode()).decode()
chain = "".join(line for line in open(certificate) if not line.startswith("-----")).replace("\n", "")


def encoded(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signed(claims):
    head = {"typ": "JWT", "alg": "RS256", "x5c": [chain]}
    text = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text.encode(), capture_output=True, check=True)
    return text + "." + encoded(made.stdout)


class Tokens(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        given = self.headers.get("Authorization")
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if given not in (None, expected):
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        scopes = [scope.split(":") for text in query.get("scope", []) for scope in text.split()]
        access = [{"type": kind, "name": name, "actions": actions.split(",")} for kind, name, actions in scopes if given]
        now = int(time.time())
        claims = {"iss": "tokens", "sub": "", "aud": query["service"][0], "iat": now, "nbf": now - 60, "exp": now + 300, "access": access}
        body = json.dumps({"token": signed(claims)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        print("granted", *[":".join(scope) for scope in scopes] if given else ["nothing"], flush=True)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
print(server.server_address[1], flush=True)
server.serve_forever()
