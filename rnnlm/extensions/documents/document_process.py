"""Read documents one after the other in a separate process, which is killed if a document takes too long.

A parser may take hours for a page of a megabyte, inside a native library that can only be interrupted by ending its
process.
"""

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from rnnlm.corpora.document_formats import DocumentError
from rnnlm.runtime.subprocess_environment import python_path


class DocumentProcess:
    """A client of a separate process, whose module calls answer_requests(). The first document starts the process."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.process: subprocess.Popen[bytes] | None = None
        # The id of the process that started the child. After a fork, the new process must start its own child, because
        # it would otherwise receive replies to requests of its parent.
        self.owner = 0
        self.lock = threading.Lock()

    def prose(self, kind: str, data: bytes, text: str, seconds: float) -> str:
        """Return the prose of a document. Raise DocumentError if there is none or if reading takes too long.

        `seconds` is the limit of computing time for the document. An interruption of this process ends the reading at
        once.
        """
        with self.lock:
            process = self.running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump((seconds, (kind, data, text)), process.stdin)
                process.stdin.flush()
                prose, reason = json.loads(process.stdout.readline())
            except (OSError, ValueError):  # The child process has ended without a reply.
                code = process.wait()
                if code == -signal.SIGPROF:
                    reason = f"takes longer than {seconds:.0f} s to read; corpus.format=text reads it with its markup"
                else:
                    reason = f"damaged {kind}: its parser ended with code {code}"
            except BaseException:
                process.kill()
                process.wait()
                raise
        if reason:
            raise DocumentError(reason)
        return str(prose)

    def running(self) -> "subprocess.Popen[bytes]":
        if self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
            self.owner = os.getpid()
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.module],
                env=os.environ | {"PYTHONPATH": python_path()},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Ctrl-C in the terminal does not reach the process, because it has a separate session. The command
                # stops it.
                start_new_session=True,
            )
            atexit.unregister(self.stop)
            atexit.register(self.stop)
        return self.process

    def stop(self) -> None:
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.wait()


def answer_requests(read: Callable[[str, bytes, str], str]) -> None:
    """Answer the requests on standard input until it ends. Other output of this process goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            seconds, request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends the process even inside a library's native code.
        try:
            reply = read(*request), ""
        except DocumentError as error:
            reply = "", str(error)
        signal.setitimer(signal.ITIMER_PROF, 0)
        try:
            # The reply is JSON, because loading a pickle can run arbitrary code and a malicious document might control
            # this process.
            replies.write(json.dumps(reply).encode() + b"\n")
            replies.flush()
        except BrokenPipeError:  # The process that sent the request was killed.
            os._exit(1)
