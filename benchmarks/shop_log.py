"""Generate the log of a fictitious shop for benchmarks/strange_lines.py, with a day of normal lines and 20 faults."""

import math
import random
from itertools import accumulate

PATHS = (  # The paths of the shop in descending order of frequency. Later paths have larger and slower responses.
    *("/", "/cart", "/checkout", "/orders/{id}", "/orders/{id}/items", "/products/{id}", "/products/{id}/reviews"),
    *("/search", "/login", "/logout", "/account", "/account/addresses", "/static/app.{hex}.js"),
    *("/static/style.{hex}.css", "/images/{hex}.jpg", "/api/v2/stock/{id}", "/api/v2/prices", "/health"),
)
HOSTS = {"api": 6, "worker": 4, "auth": 2, "db": 2, "search": 2}
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
LINES_A_SECOND = 2.4
RARE_SHARE = 0.0006  # The fraction of log lines that are drawn from the rare kinds.
CURRENCIES = (("DE", "EUR"), ("FR", "EUR"), ("US", "USD"), ("GB", "GBP"))


def invented_words(draw: random.Random, count: int, syllables: tuple[int, int]) -> list[str]:
    return ["".join(draw.choices(SYLLABLES, k=draw.randint(*syllables))) for _ in range(count)]


def falling_weights(count: int) -> list[float]:
    """Return the cumulative weights of `count` ranks that follow Zipf's law."""
    return list(accumulate(1 / (rank + 3) for rank in range(count)))


class ShopLog:
    """A generator of a shop's log lines. The shop's users and products do not depend on the seed."""

    def __init__(self, seed: int) -> None:
        fixed = random.Random(0)
        self.users = invented_words(fixed, 3_000, (2, 3))
        self.products = invented_words(fixed, 900, (2, 4))
        self.draw = random.Random(seed)
        self.seconds = 0.0

    def lines(self, count: int) -> list[str]:
        return [self.line() for _ in range(count)]

    def line(self) -> str:
        if self.draw.random() < RARE_SHARE:
            return f"{self.time()} {self.rare()}"
        messages = (self.query, self.login, self.search, self.payment, self.cache, self.mail, self.upload)
        kinds = (*[self.request] * 6, *[self.job] * 2, *messages)
        return f"{self.time()} {self.draw.choice(kinds)()}"

    def time(self) -> str:
        self.seconds = (self.seconds + self.draw.expovariate(LINES_A_SECOND)) % 86_400
        minutes, seconds = divmod(self.seconds, 60)
        return f"2026-11-25T{int(minutes // 60):02d}:{int(minutes % 60):02d}:{seconds:06.3f}Z"

    def host(self, service: str) -> str:
        return f"{service}-{self.draw.randint(1, HOSTS[service])}"

    def user(self) -> str:
        return self.draw.choices(self.users, cum_weights=falling_weights(len(self.users)))[0]

    def words(self) -> str:
        count = self.draw.randint(1, 4)
        return " ".join(self.draw.choices(self.products, cum_weights=falling_weights(len(self.products)), k=count))

    def address(self) -> str:
        return f"10.{self.draw.randint(0, 3)}.{self.draw.randint(0, 255)}.{self.draw.randint(1, 254)}"

    def identifier(self, length: int) -> str:
        return "".join(self.draw.choices("0123456789abcdef", k=length))

    def size(self, median: float, spread: float) -> int:
        """Draw the size or the duration of a response from a log-normal distribution."""
        return max(1, round(median * math.exp(self.draw.gauss(0, spread))))

    def request(self) -> str:
        rank = self.draw.choices(range(len(PATHS)), [1 / (rank + 2) for rank in range(len(PATHS))])[0]
        path = PATHS[rank].format(id=self.draw.randint(10_000, 99_999), hex=self.identifier(8))
        method = self.draw.choices(("GET", "POST", "PUT", "DELETE", "HEAD"), (80, 14, 3, 1, 2))[0]
        status = self.draw.choices((200, 304, 302, 404, 500, 429), (90, 4, 3, 2, 0.3, 0.2))[0]
        sizes = f"{self.size(900 + 700 * rank, 0.6)} {self.size(12 + 9 * rank, 0.5)}ms"
        return (
            f'{self.host("api")} INFO {self.address()} "{method} {path} HTTP/1.1" {status} {sizes} user={self.user()}'
        )

    def query(self) -> str:
        table = self.draw.choice(("orders", "items", "users", "stock", "reviews"))
        return f"{self.host('db')} DEBUG query table={table} rows={self.size(20, 1.0)} took={self.size(4, 0.7)}ms"

    def job(self) -> str:
        name = self.draw.choice(("send_receipt", "resize_image", "sync_stock", "clean_sessions", "export_report"))
        state = self.draw.choice(("started", f"finished in {self.size(350, 0.6)} ms"))
        return f"{self.host('worker')} INFO job {self.identifier(12)} {name} {state}"

    def login(self) -> str:
        result = self.draw.choices(("ok", "wrong password", "locked"), (90, 9, 1))[0]
        return f"{self.host('auth')} INFO login user={self.user()} from {self.address()}: {result}"

    def search(self) -> str:
        sizes = f"hits={self.size(40, 1.0)} took={self.size(18, 0.5)}ms"
        return f'{self.host("search")} INFO search "{self.words()}" {sizes}'

    def payment(self) -> str:
        country, currency = self.draw.choice(CURRENCIES)
        amount = f"{self.size(4_500, 0.7) / 100:.2f} {currency}"
        return f"{self.host('worker')} INFO payment {self.identifier(10)} captured {amount} country={country}"

    def cache(self) -> str:
        result = self.draw.choices(("hit", "miss"), (3, 1))[0]
        return f"{self.host('api')} DEBUG cache {result} key=product:{self.draw.randint(10_000, 99_999)}"

    def mail(self) -> str:
        return f"{self.host('worker')} INFO mail to {self.user()}@example.org queued, {self.size(14_000, 0.3)} bytes"

    def upload(self) -> str:
        sizes = f"{self.size(240_000, 0.8)} bytes in {self.size(400, 0.5)} ms"
        return f"{self.host('api')} INFO upload of {self.identifier(8)}.jpg by {self.user()}: {sizes}"

    def rare(self) -> str:
        """Return a normal line of a rare kind."""
        version = f"4.{self.draw.randint(1, 9)}.{self.draw.randint(0, 20)}"
        lines = (
            f"{self.host('worker')} INFO starting version {version}",
            f"{self.host('api')} INFO configuration reloaded",
            f"{self.host('db')} WARN checkpoint took {self.size(9_000, 0.4)} ms",
            f"{self.host('auth')} INFO key {self.identifier(16)} rotated",
            f"{self.host('search')} INFO index rebuilt: {self.size(80_000, 0.05)} documents",
            f"{self.host('worker')} WARN retrying {self.identifier(12)}, attempt {self.draw.randint(2, 5)}",
            f"{self.host('api')} WARN slow client {self.address()}",
            f"{self.host('db')} INFO vacuum of {self.draw.choice(('orders', 'items', 'stock'))} finished",
        )
        return self.draw.choice(lines)

    def faults(self) -> list[str]:
        """Return the twenty faults in the log, which a good detector of strange lines should find."""
        job, payment = f"job {self.identifier(12)}", f"payment {self.identifier(10)} captured"
        request = f"INFO {self.address()}"
        upload = f"upload of {self.identifier(8)}.jpg by {self.user()}:"
        lines = (
            # Faults with messages that have never occurred before.
            f"worker-2 ERROR {job} resize_image failed: cannot allocate memory",
            f"db-1 FATAL could not write block {self.draw.randint(1_000, 9_999)} of orders: No space left on device",
            "api-3 ERROR panic: index out of range [3] with length 3",
            "auth-1 ERROR certificate of ldap.example.org expired 2026-11-24",
            # Faults with an unusual word.
            f"worker-1 INFO {job} send_receipt skipped",
            f'api-5 {request} "PROPFIND /account HTTP/1.1" 200 1822 41ms user={self.user()}',
            f"auth-2 INFO login user=root from {self.address()}: ok",
            # Faults with an unusual combination of ordinary words.
            f"worker-3 INFO {payment} 39.90 EUR country=US",
            f'db-1 {request} "GET /cart HTTP/1.1" 200 1311 17ms user={self.user()}',
            # Faults with an unusually large or small number.
            f"auth-1 INFO login user={self.user()} from 203.0.113.77: ok",
            f'api-2 {request} "GET /cart HTTP/1.1" 200 1520 98231ms user={self.user()}',
            "db-2 DEBUG query table=stock rows=4820113 took=5ms",
            f"worker-4 INFO {payment} 99999.00 USD country=US",
            f"worker-2 INFO {job} sync_stock finished in 9921044 ms",
            f"api-1 INFO {upload} 0 bytes in 412 ms",
            # Damaged lines, and a line of an attack.
            f'api-1 {request} "GET /prod',
            'search-1 INFO search "\' or 1=1; drop table users --" hits=0 took=19ms',
            f'api-4 {request} "GET /static/../../etc/passwd HTTP/1.1" 404 911 8ms user={self.user()}',
            f'search-2 INFO se\ufffd\ufffdch "{self.words()}" hits=41 took=17ms',
        )
        clock_reset = f"1970-01-01T00:00:04.117Z worker-1 INFO {job} clean_sessions finished in 322 ms"
        return [*(f"{self.time()} {line}" for line in lines), clock_reset]
