"""A single http(s) request, for which each redirect is checked and transient failures are distinguished from others."""

import contextlib
import ipaddress
import math
import socket
import string
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import requests
import urllib3

from rnnlm.errors import CorpusError, FetchError
from rnnlm.runtime.proxies import proxy_problem
from rnnlm.storage.redaction import redacted

MAXIMUM_REDIRECTS = 5
RECEIVED_AT_ONCE = 1 << 20
# The statuses after which a request is tried again, in addition to all statuses from 500 on.
RETRIED_STATUSES = {408, 425, 429}
EXPECTED_STATUSES = {200, 206, 304, 416}


@dataclass(frozen=True)
class FetchPolicy:
    """The timeouts, the limits and the number of attempts of a download."""

    attempts: int = 5  # The largest number of attempts to download a file.
    connect_seconds: float = 10.0
    read_seconds: float = 60.0  # maximum time in seconds between two reads of a response.
    # The longest wait before the second attempt. The limit doubles with each further attempt.
    backoff_seconds: float = 1.0
    # The maximum wait between two attempts, even if the server requests a longer one.
    maximum_wait_seconds: float = 60.0
    maximum_bytes: float = math.inf
    maximum_seconds: float = math.inf  # maximum time in seconds of all attempts together.


class TransientError(FetchError):
    """An error of one attempt. A later attempt may succeed. `after_seconds` is the server's Retry-After."""

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class RedirectsByHand(requests.Session):
    """A session that leaves redirects to its caller, because requests fails at Location headers that are not UTF-8."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


@contextlib.contextmanager
def network_errors_explained(label: str) -> Iterator[None]:
    """Raise TransientError in place of requests' and urllib3's errors, or CorpusError if the address is invalid."""
    try:
        yield
    except ValueError:
        raise CorpusError(f"{label}: is not a valid address; expected http(s)://host/path") from None
    except requests.RequestException as error:
        raise TransientError(
            f"{label}: download failed ({type(error).__name__}); check the address and run again"
        ) from error
    # Reading the raw stream raises the error types of urllib3 instead of those of requests.
    except urllib3.exceptions.HTTPError as error:
        raise TransientError(f"{label}: download broke off ({type(error).__name__}); run again") from error


def ask(url: str, headers: dict[str, str], policy: FetchPolicy) -> requests.Response:
    """Return the response after all redirects. Its status is 200, 206, 304 or 416.

    Redirects from https to http are refused.
    """
    asked = redacted(url)
    timeout = (policy.connect_seconds, policy.read_seconds)
    # The value "identity" requests uncompressed data, so that the reported length is that of the received bytes.
    headers = {"Accept-Encoding": "identity", "User-Agent": "rnnlm", **headers}
    for _ in range(MAXIMUM_REDIRECTS + 1):
        if problem := proxy_problem(url):
            raise CorpusError(f"{asked}: {problem}")
        with RedirectsByHand() as session:
            response = session.get(url, stream=True, timeout=timeout, allow_redirects=False, headers=headers)
        if not response.is_redirect:
            break
        response.close()
        target = urljoin(url, redirect_target(response.headers["Location"]))
        refuse_redirect(asked, url, target)
        url = target
    else:
        raise CorpusError(f"{asked}: more than {MAXIMUM_REDIRECTS} redirects; give the final address")
    status = response.status_code
    if status in EXPECTED_STATUSES:
        return response
    response.close()
    if status >= 500 or status in RETRIED_STATUSES:
        after = retry_after_seconds(response.headers.get("Retry-After"))
        raise TransientError(f"{asked}: the server answered {status}; run again later", after)
    raise CorpusError(f"{asked}: the server answered {status}, expected 200; check the address")


def redirect_target(location: str) -> str:
    """Return the address in a Location header, interpreted in the same way as by browsers.

    Many servers send an address that is not percent-encoded.
    """
    # This restores the received bytes, because http.client decodes headers as Latin-1.
    sent = location.encode("latin-1")
    try:
        return sent.decode("utf-8")
    except UnicodeDecodeError:
        return quote(sent, safe=string.printable)


def refuse_redirect(asked: str, url: str, target: str) -> None:
    """Raise CorpusError for a redirect to a scheme other than http and https, or from https to http."""
    scheme = urlsplit(target).scheme
    if scheme not in ("http", "https"):
        raise CorpusError(f"{asked}: redirects to {redacted(target)}; only http and https are followed")
    if scheme == "http" and urlsplit(url).scheme == "https":
        raise CorpusError(
            f"{asked}: redirects from https to {redacted(target)}, which is not encrypted;\n"
            "if you trust the network, give the http address as the source"
        )
    if is_loopback(urlsplit(target).hostname) and not is_loopback(urlsplit(url).hostname):
        raise CorpusError(
            f"{asked}: redirects to {redacted(target)}, a server on this machine;\n"
            "if you want the text of this server, give its address as the source"
        )


def is_loopback(host: str | None) -> bool:
    """Return True if the host is this machine. Return False if its name cannot be resolved."""
    try:
        found = {ipaddress.ip_address(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return False
    return any(address.is_loopback or address.is_unspecified for address in found)


def pieces(response: requests.Response) -> Iterator[bytes]:
    """Yield the body of a response in pieces as they arrive.

    If the connection breaks, all bytes received so far have been yielded.
    """
    while piece := response.raw.read1(RECEIVED_AT_ONCE, decode_content=False):
        yield piece


def retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds in a Retry-After header, which is a number or an HTTP date.

    Return None for any other value.
    """
    try:
        return None if value is None else float(urllib3.Retry().parse_retry_after(value))
    except urllib3.exceptions.InvalidHeader:
        return None
