"""Three owners inside the walls of the container's files and of the unit, where no container engine is at hand.

    python scripts/sandbox.py FOLDER        needs bwrap (Debian: bubblewrap); a folder that is not there yet

Entry point, environment and user are read from deploy/Containerfile, and what the network is from its page: each owner
sees a read-only system, its records read-only, its own folder at /party and a /tmp, has no capability and another
user's number. Where systemd-analyze and libseccomp's Python module (Debian: python3-seccomp) are there, system calls
are filtered as deploy/coterie@.service says. All on this machine's loop-back. Prints what each step ended with.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text()
UNIT = (ROOT / "deploy" / "coterie@.service").read_text()
OWNERS = {"north": "127.0.0.11", "south": "127.0.0.12", "east": "127.0.0.13"}
COTERIE = [sys.executable, "-m", "coterie"]


def said(keyword: str) -> list[str]:
    """The words of an instruction of the image, the last of that name."""
    found = re.findall(rf"^{keyword} (.*)$", CONTAINER, re.M)[-1]
    return json.loads(found) if found.startswith("[") else shlex.split(found)


def found_network(folder: Path) -> None:
    """As the page for administrators has it, with fewer rounds."""
    names = ",".join(OWNERS)
    new = ["network", "new", folder / "trial", "--owners", names, "--sizes", "9177,9177,9176"]
    where = [word for name in OWNERS for word in ("--address", f"{name}={name}:17471")]
    subprocess.run([*COTERIE, "data", "export", "census", "--out", folder / "files"], check=True)
    columns = ["--columns", folder / "files" / "columns.toml", "--set", "rounds=20"]
    subprocess.run([*COTERIE, *new, *where, *columns], check=True, stdout=subprocess.DEVNULL)
    hosts = "".join(f"{address} {name}\n" for name, address in OWNERS.items())
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")


def walls(folder: Path, owner: str, filtered: int | None) -> list[str]:
    """bwrap and its options, up to the command."""
    number = said("USER")[0].partition(":")[0]
    options = (
        "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --die-with-parent --new-session --clearenv"
    )
    words = [*options.split(), "--uid", number, "--gid", number, "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for system in ("/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix, str(ROOT / "src")):
        link = Path(system).is_symlink()
        words += ["--symlink", os.readlink(system), system] if link else ["--ro-bind", system, system]
    words += ["--ro-bind", str(folder / "hosts"), "/etc/hosts"]
    words += ["--bind", str(folder / "trial" / "parties" / owner), "/party"]
    words += ["--ro-bind", str(folder / "files" / f"{owner}.csv"), "/data/records.csv", "--remount-ro", "/"]
    for pair in said("ENV"):
        words += ["--setenv", *pair.split("=", 1)]
    return ["bwrap", *words, *(["--seccomp", str(filtered)] if filtered is not None else [])]


def system_calls() -> bytes | None:
    """The unit's filter, compiled; None where this machine has not what that needs."""
    try:
        import seccomp  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    if shutil.which("systemd-analyze") is None:
        return None
    allowed: set[str] = set()
    for names in re.findall(r"^SystemCallFilter=(.*)$", UNIT, re.M):
        listed = {one for name in names.removeprefix("~").split() for one in expanded(name)}
        allowed = allowed - listed if names.startswith("~") else allowed | listed
    rules = seccomp.SyscallFilter(seccomp.ERRNO(1))  # EPERM, as the unit says
    for name in sorted(allowed):
        if seccomp.resolve_syscall(seccomp.Arch(), name) >= 0:  # others are of other processors
            rules.add_rule(seccomp.ALLOW, name)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def expanded(name: str) -> set[str]:
    """The calls of one of systemd's sets, and of the sets in it."""
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True
    )
    words = [line.strip() for line in shown.stdout.splitlines()[1:]]
    named = [word for word in words if word and not word.startswith("#")]
    return {one for word in named for one in (expanded(word) if word.startswith("@") else {word})}


def together(folder: Path, more: list[str], calls: bytes | None) -> dict[str, int]:
    """The image's command at all owners at the same time; how each ended."""
    started = {}
    for at, owner in enumerate(OWNERS):
        entry = [COTERIE[0], *COTERIE[1:], *said("ENTRYPOINT")[1:], *said("CMD"), *more]
        port = entry.index("--metrics-port") + 1
        entry[port] = str(int(entry[port]) + at)  # here they share one loop-back
        held = None
        if calls is not None:
            held = os.memfd_create("calls", 0)
            os.write(held, calls)
            os.lseek(held, 0, os.SEEK_SET)
        log = (folder / f"{owner}.log").open("ab")
        command = [*walls(folder, owner, held), *entry]
        passed = () if held is None else (held,)
        started[owner] = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=passed)
    return {owner: one.wait() for owner, one in started.items()}


def main(folder: Path) -> int:
    """0 where all owners ended well."""
    folder.mkdir(parents=True)
    found_network(folder.resolve())
    calls = system_calls()
    print(
        "system calls:",
        "as the unit filters them" if calls else "not filtered: no systemd-analyze or seccomp",
    )
    ended: list[int] = []
    for what, more in (("dry run", ["--check"]), ("run", []), ("again", [])):
        found = together(folder.resolve(), more, calls)
        print(f"{what}: " + ", ".join(f"{owner} {status}" for owner, status in found.items()), flush=True)
        ended += found.values()
    made = [folder / "trial" / "parties" / owner / "result" / "model.safetensors" for owner in OWNERS]
    print("models:", sum(one.exists() for one in made), "of", len(made))
    return 0 if not any(ended) and all(one.exists() for one in made) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
