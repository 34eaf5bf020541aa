"""A Hugging Face hub on this machine with one data set, `owner/name`, in the configurations `small` and `large`."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.rnnlm.corpora.packed_files import parquet_of

COMMIT = "a" * 40
README = """---
configs:
- config_name: small
  data_files: [{split: train, path: small/train.parquet}, {split: test, path: small/test.parquet}]
- config_name: large
  data_files: [{split: train, path: large/train.parquet}]
---
"""
FILES = {
    "README.md": README.encode(),
    "small/train.parquet": parquet_of(["the cat", "the dog"]),
    "small/test.parquet": parquet_of(["the fox"]),
    "large/train.parquet": parquet_of(["the bird"]),
}
ABOUT = {"id": "owner/name", "_id": "1", "sha": COMMIT, "private": False, "gated": False, "disabled": False}
ABOUT |= {"tags": [], "downloads": 0, "likes": 0, "siblings": [{"rfilename": name} for name in FILES]}


class HubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        tree = re.fullmatch(rf"/api/datasets/owner/name/tree/{COMMIT}/?(.*)", path)
        file = re.fullmatch(rf"/datasets/owner/name/resolve/(?:main|{COMMIT})/(.*)", path)
        if tree:
            self.answer(200, json.dumps(listing(tree[1])).encode())
        elif re.fullmatch(rf"/api/datasets/owner/name(/revision/(main|{COMMIT}))?", path):
            self.answer(200, json.dumps(ABOUT).encode())
        elif file and file[1] in FILES:
            self.file(FILES[file[1]])
        else:
            self.answer(404, b"{}", **{"X-Error-Code": "EntryNotFound" if "owner/name" in path else "RepoNotFound"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def file(self, data: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if asked is None:
            self.answer(200, data)
            return
        begin, end = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        self.answer(206, data[begin : end + 1], **{"Content-Range": f"bytes {begin}-{end}/{len(data)}"})

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"ETag": '"one"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None: ...


def listing(folder: str) -> list[dict[str, object]]:
    """Return the files and folders directly in a folder, in the form in which the hub lists them."""
    inside = [name.removeprefix(f"{folder}/") for name in FILES if not folder or name.startswith(f"{folder}/")]
    prefix = f"{folder}/" if folder else ""
    files: list[dict[str, object]] = [
        {"type": "file", "path": prefix + name, "size": len(FILES[prefix + name]), "oid": "b" * 40}
        for name in inside
        if "/" not in name
    ]
    folders = sorted({name.partition("/")[0] for name in inside if "/" in name})
    files += [{"type": "directory", "path": prefix + name, "oid": "c" * 40} for name in folders]
    return files
