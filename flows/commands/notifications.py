"""Set the address to which the automations send their messages, with `rnnlm notify`."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.command import Session
from flows.commands.schedules import prefect_client, prefect_query
from rnnlm.display.text_layout import labelled
from rnnlm.errors import ConfigError
from rnnlm.storage.redaction import redacted

if TYPE_CHECKING:
    from prefect.blocks.abstract import NotificationBlock

HEADING = "Every night"


def notify_command(
    session: Session,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Address for the messages: an http(s) address that accepts JSON, a Slack webhook, or an Apprise URL "
            "such as mailtos://USER:PASSWORD@HOST?to=ADDRESS.",
        ),
    ],
    every_night: Annotated[
        bool | None,
        typer.Option(
            "--every-night/--not-every-night",
            help="Also send a message after every nightly run. It contains the run's scores, those of the champion, "
            "the decision and the files that were not read. Default: unchanged. At first, only what needs attention is "
            "sent.",
        ),
    ] = None,
) -> None:
    """Send messages about nightly runs to a webhook, Slack or an e-mail address.

    A test message is sent first. If it is accepted, the address is stored as a Prefect block named rnnlm, which the
    automations use. There is one block for each kind of address. To stop the messages, delete the block in the Prefect
    UI.

    rnnlm notify https://hooks.slack.com/services/T000/B000/XXXX
    rnnlm notify https://example.org/hook --every-night
    """
    from flows.operations.automations import NOTIFIER, deploy_automations

    with prefect_query(), prefect_client() as client:
        block = block_of(url)
        try:
            with block.raise_on_failure():
                block.notify("This is a test: messages of rnnlm arrive here.", "rnnlm: test")  # type: ignore[unused-coroutine]
        except Exception as error:
            raise ConfigError(
                f"{redacted(url)}: the test message was not accepted ({type(error).__name__}); check the address"
            ) from error
        block.save(NOTIFIER, overwrite=True)
        told = deploy_automations(client, every_night=every_night)
    kind = type(block).get_block_type_slug()
    text = [labelled("notified", f"{kind}/{NOTIFIER}, and a test message was sent"), labelled("told", f"{told} blocks")]
    session.print_result("\n".join(text), {"block": f"{kind}/{NOTIFIER}", "blocks": told})


def block_of(url: str) -> "NotificationBlock":
    """Return a block for Slack or Apprise, or one that sends JSON to a webhook.

    Raise ConfigError for an invalid address.
    """
    from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
    from pydantic import SecretStr

    scheme, separator, rest = url.partition("://")
    if not separator or not rest:
        raise ConfigError("expected an address, such as https://example.org/hook or mailtos://USER:PASSWORD@HOST")
    if scheme in ("http", "https") and not rest.startswith(("hooks.slack.com/", "hooks.slack-gov.com/")):
        # The body has the field `text`, which Slack reads.
        body = {"subject": "{{subject}}", "body": "{{body}}", "text": "{{subject}}\n{{body}}"}
        return CustomWebhookNotificationBlock(name="rnnlm", url="{{url}}", secrets={"url": url}, json_data=body)
    block = SlackWebhook(url=SecretStr(url))  # SlackWebhook passes URLs of other services to Apprise.
    if not len(block._apprise_client):
        raise ConfigError(f"{redacted(url)}: Apprise does not know this kind of address; see its documentation")
    return block
