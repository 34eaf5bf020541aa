"""Plain http(s) downloads: streamed, length and digest checked, whole or absent."""

import hashlib
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import requests

from rnnlm.errors import CorpusError, FetchError
from rnnlm.home import atomic_file

TIMEOUT_SECONDS = (10, 60)  # to connect, between two bytes
MAXIMUM_REDIRECTS = 5
CHUNK_BYTES = 1 << 20


def fetch(url: str, target: Path, sha256: str | None = None) -> None:
    """Download `url` to `target`. FetchError: worth another try. CorpusError: it is not."""
    try:
        with follow(url) as response, atomic_file(target) as partial:
            received, digest = 0, hashlib.sha256()
            with partial.open("wb") as stream:
                for chunk in response.raw.stream(CHUNK_BYTES, decode_content=False):
                    stream.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
            expected = response.headers.get("Content-Length")
            if expected is not None and received != int(expected):
                raise FetchError(f"{url}: {received} bytes came, expected {expected}; run again")
            if sha256 and digest.hexdigest() != sha256:
                raise CorpusError(
                    f"{url}: sha256 {digest.hexdigest()[:12]}, expected {sha256[:12]};\n"
                    "the file has changed or is damaged: correct corpus.sha256 if you trust it"
                )
    except (requests.RequestException, OSError) as error:
        raise FetchError(f"{url}: download failed ({type(error).__name__}); check the address and run again") from error
    except Exception as error:
        if type(error).__module__.startswith("urllib3"):  # raw streams raise urllib3's own errors
            raise FetchError(f"{url}: download broke off ({type(error).__name__}); run again") from error
        raise


def follow(url: str) -> requests.Response:
    """The final answer after redirects, each of which must stay within http and https."""
    headers = {"Accept-Encoding": "identity"}  # so that Content-Length counts the bytes that come
    for _ in range(MAXIMUM_REDIRECTS + 1):
        response = requests.get(url, stream=True, timeout=TIMEOUT_SECONDS, allow_redirects=False, headers=headers)
        if not response.is_redirect:
            break
        response.close()
        target = urljoin(url, response.headers["Location"])
        if urlsplit(target).scheme not in ("http", "https"):
            raise CorpusError(f"{url}: redirects to {target}; only http and https are followed")
        url = target
    else:
        raise CorpusError(f"{url}: more than {MAXIMUM_REDIRECTS} redirects; give the final address")
    if response.status_code >= 500 or response.status_code == 429:
        response.close()
        raise FetchError(f"{url}: the server answered {response.status_code}; run again later")
    if response.status_code != 200:
        response.close()
        raise CorpusError(f"{url}: the server answered {response.status_code}, expected 200; check the address")
    return response
