#!/usr/bin/env python3
"""http_server.py - an HTTP server that misbehaves on request, for the tests of musec data get.

    tests/tools/http_server.py ROOT LOG [CERTIFICATE]

Serves the files of ROOT at http://127.0.0.1:PORT/MANNERS/NAME, prints PORT, and ends when its stdin
does.  With a CERTIFICATE (a .pem file with its key) it serves https.  LOG gets a line for each
request: path, Range, If-Range, status.

MANNERS is a list of words, separated by commas; :K at the end of a word restricts it to the first K
requests of that path:
    plain          ranges, ETag and If-Range as in the HTTP standard
    cut:N[:K]      closes the connection after N bytes of the body
    stall:N[:K]    stops after N bytes, and leaves the connection open until the client closes it
    slow:N         sleeps 10 ms after every N bytes
    status:S[:K]   answers with this status (and Retry-After: 0)
    corrupt[:K]    one byte is wrong
    longer         the file has ten bytes more
    norange        no ranges: always the whole file
    notag          no ETag
    dated          no ETag but Last-Modified, which a 206 to If-Range leaves out
    newtag         another ETag at each request
    liar           another file of the same length at each request, whatever If-Range says
    nolength       no Content-Length
    redirect       redirects to the path without this word
    linked         like redirect, with the sha256 as X-Linked-ETag, like Hugging Face
    loop           redirects to itself
"""
import hashlib
import http.server
import os
import re
import socket
import ssl
import sys
import threading
import time

ROOT, LOG, *CERTIFICATE = sys.argv[1:]
lock = threading.Lock()
counts = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self, status):
        with lock, open(LOG, "a", encoding="ascii") as log:
            log.write("%s %s %s %d\n" % (self.path, self.headers.get("Range", "-"),
                                            self.headers.get("If-Range", "-"), status))

    def manner(self, name, arguments):
        """The arguments of a manner, if it is in the path and not used up; else None."""
        for word in self.manners:
            parts = word.split(":")
            if parts[0] != name:
                continue
            if len(parts) == arguments + 2 and self.turn >= int(parts[-1]):
                return None
            return [int(p) for p in parts[1:arguments + 1]]
        return None

    def answer(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Connection", "close")
        self.end_headers()

    def close_now(self):
        """Closes the connection like a broken line: what is not sent yet is lost."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def send_body(self, body):
        cut, stall, slow = (self.manner(m, 1) for m in ("cut", "stall", "slow"))
        end = min(cut[0] if cut else len(body), stall[0] if stall else len(body), len(body))
        step = slow[0] if slow else max(end, 1)
        sent = 0
        try:
            while sent < end:
                self.wfile.write(body[sent:min(sent + step, end)])
                sent = min(sent + step, end)
                if slow:
                    time.sleep(0.01)
            if end < len(body):
                self.wfile.flush()
                if stall:
                    self.connection.recv(1)
                self.close_now()
        except OSError:
            self.close_connection = True

    def body(self, name):
        with open(os.path.join(ROOT, name), "rb") as f:
            data = f.read()
        if self.manner("corrupt", 0) is not None:
            data = data[:7] + bytes([data[7] ^ 1]) + data[8:]
        if self.manner("longer", 0) is not None:
            data += b"0123456789"
        if self.manner("liar", 0) is not None:
            data = bytes(b ^ self.turn % 256 for b in data)
        return data

    def do_GET(self):
        _, words, name = self.path.split("/", 2)
        self.manners = words.split(",")
        with lock:
            self.turn = counts.get(self.path, 0)
            counts[self.path] = self.turn + 1
        for word in ("redirect", "linked", "loop"):
            if word in self.manners:
                rest = [m for m in self.manners if m != word or word == "loop"]
                headers = {"Location": "/%s/%s" % (",".join(rest) or "plain", name),
                           "Content-Length": "0", "ETag": '"of the redirect"'}
                if word == "linked":
                    with open(os.path.join(ROOT, name), "rb") as f:
                        right = hashlib.sha256(f.read()).hexdigest()
                    headers["X-Linked-ETag"] = '"%s"' % right
                self.note(302)
                return self.answer(302, headers)
        status = self.manner("status", 1)
        if status or not os.path.isfile(os.path.join(ROOT, name)):
            status = status[0] if status else 404
            page = b"a page of words\n"
            self.note(status)
            self.answer(status, {"Content-Length": str(len(page)), "Retry-After": "0"})
            return self.wfile.write(page)
        self.send_file(self.body(name))

    def send_file(self, data):
        tag = '"%s"' % hashlib.sha256(data).hexdigest()[:16]
        if self.manner("newtag", 0) is not None or self.manner("liar", 0) is not None:
            tag = '"tag %d"' % self.turn
        dated = self.manner("dated", 0) is not None
        if dated:
            tag = "Tue, 06 Feb 2024 10:20:30 GMT"
        headers = {} if self.manner("notag", 0) is not None or dated else {"ETag": tag}
        wanted = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        if_range = self.headers.get("If-Range", tag)
        status, body = 200, data
        if self.manner("norange", 0) is None and wanted and (
                if_range == tag or self.manner("liar", 0) is not None):
            first = int(wanted.group(1))
            if first >= len(data):
                self.note(416)
                return self.answer(416, {"Content-Range": "bytes */%d" % len(data),
                                         "Content-Length": "0"})
            status, body = 206, data[first:]
            dated = False
            headers["Content-Range"] = "bytes %d-%d/%d" % (first, len(data) - 1, len(data))
        if dated:
            headers["Last-Modified"] = tag
        if self.manner("nolength", 0) is None:
            headers["Content-Length"] = str(len(body))
        else:
            self.close_connection = True
        self.note(status)
        self.answer(status, headers)
        self.send_body(body)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # such as a client that was killed


def main():
    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if CERTIFICATE:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


main()
