"""serve: a model over HTTP."""

import argparse
import os

from flows.commands.models import listen
from flows.commands.parser import Commands, Say, add
from rnnlm.home import Home
from rnnlm.presets import validate_section
from rnnlm.serving.serving_config import ServingConfig

TOKEN = "RNNLM_SERVE_TOKEN"
LIMITS = (  # field, type, unit
    ("maximum_running", int, "prompts stepped together"),
    ("maximum_waiting", int, "prompts that may wait"),
    ("maximum_seconds", float, "seconds a request may take"),
    ("poll_seconds", float, "seconds between two looks for a new champion"),
    ("drain_seconds", int, "seconds that running requests have after SIGTERM"),
)


def add_commands(commands: Commands) -> None:
    sub = add(commands, "serve", serve, "a model over HTTP: /generate, /score, and a page to try it")
    sub.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a registered name (its champion, followed), models:/NAME@ALIAS (followed), models:/NAME/VERSION, a run "
        "folder or a run id; default: the only registered name",
    )
    defaults = ServingConfig.model_fields
    sub.add_argument("--host", default=defaults["host"].default, help="address to listen at (default: loopback)")
    sub.add_argument("--port", type=int, default=defaults["port"].default, help="0: one that is free")
    sub.add_argument("--token", help=f"that requests carry; better in {TOKEN}: other users see a command's options")
    for field, type_, text in LIMITS:
        default = defaults[field].default
        sub.add_argument(
            f"--{field.replace('_', '-')}", type=type_, default=default, help=f"{text} (default: {default})"
        )


def serve(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    names = ("host", "port", *(field for field, _, _ in LIMITS))
    values = {name: getattr(options, name) for name in names}
    token = options.token or os.environ.get(TOKEN)
    config = validate_section("serving", ServingConfig, values | ({"token": token} if token else {}))
    from rnnlm.serving.server import serve as serve_model

    def announce(address: str, model: str) -> None:
        say(f"serving    {model}\nat         {address}", {"model": model, "address": address})

    serve_model(home, options.model, config, announce)
