"""One party as a process of its own: python party.py CONFIG, with the configuration that the tests write as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wired import LONG, Chorus

from coterie.federation.drive import Driver, FrameTerms, Hooks, stopping
from coterie.federation.transport import door, trust
from coterie.federation.transport.zenoh import ZenohTransport


def main(config: Path) -> None:
    """Run until finished or told to stop."""
    said = json.loads(config.read_text())
    name, longest = said["name"], said["longest"]
    transport = ZenohTransport(
        trust.identity(Path(said["folder"]), name),
        run=said["run"],
        admitted=said["admitted"],
        listen=said["listen"],
        peers=said["peers"],
        longest=longest,
    )
    machine = Chorus(name, said["voices"], said["rounds"], paced=True)
    terms = FrameTerms(bytes.fromhex(said["agreement"]), longest, linger=LONG)
    with stopping() as stop:
        log = lambda line: print(line, file=sys.stderr, flush=True)
        driver = Driver(machine, transport, terms, Hooks(log, Path(said["status"]), stop=stop))
        with door.watched(driver.refuse):
            finished = driver.run()
            print("finished" if finished else "stopped")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
