"""A check of the proxies that environment variables configure."""

import importlib.util
from urllib.parse import urlsplit

# The SOCKS URL schemes that `requests` supports, and the package that it needs for them: the name in the package index
# and the imported name.
SOCKS_OF_REQUESTS = (("socks4", "socks4a", "socks5", "socks5h"), "PySocks", "socks")
SOCKS_OF_HTTPX = (("socks5", "socks5h"), "socksio", "socksio")


def proxy_problem(url: str, socks: tuple[tuple[str, ...], str, str] = SOCKS_OF_REQUESTS) -> str:
    """Return the reason why the environment's proxy for `url` cannot be used.

    Return "" if it can be used or if there is none. `socks` is SOCKS_OF_REQUESTS or SOCKS_OF_HTTPX, depending on the
    library that uses the proxy.
    """
    from requests.utils import get_environ_proxies, select_proxy

    proxy = select_proxy(url, get_environ_proxies(url))
    if proxy is None:
        return ""
    schemes, package, module = socks
    scheme, separator, _ = proxy.lower().partition("://")
    if not separator or scheme in ("http", "https"):
        return ""
    named = f"the environment's proxy for {urlsplit(url).hostname} is of the kind {scheme}://"
    if scheme not in schemes:
        return f"{named}; expected http, https or {', '.join(schemes)} in ALL_PROXY, HTTPS_PROXY or HTTP_PROXY"
    if importlib.util.find_spec(module) is None:
        return f"{named}, for which the package {package} is missing: pip install {package}"
    return ""
