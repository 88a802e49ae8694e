"""KDD Cup 99, the 10 % file: normal connections against attacks.

Names and kinds of the columns: kddcup.names. The lists of services and flags are those of the NSL-KDD
headers, which cover the whole competition. Rates are shares and flags 0 or 1. The other ranges are round
numbers set by hand with the public file in view: 511 and 255 for the two pairs of connection counts, 2³²
bytes and one day on a log scale.
"""

from __future__ import annotations

from pathlib import Path

from coterie.problems.datasets._encode import Category, Numeric, encode
from coterie.problems.datasets._files import frame_of
from coterie.problems.datasets._table import Loaded

_SERVICES = (
    "aol", "auth", "bgp", "courier", "csnet_ns", "ctf", "daytime", "discard", "domain", "domain_u", "echo",
    "eco_i", "ecr_i", "efs", "exec", "finger", "ftp", "ftp_data", "gopher", "harvest", "hostnames", "http",
    "http_2784", "http_443", "http_8001", "imap4", "IRC", "iso_tsap", "klogin", "kshell", "ldap", "link",
    "login", "mtp", "name", "netbios_dgm", "netbios_ns", "netbios_ssn", "netstat", "nnsp", "nntp", "ntp_u",
    "other", "pm_dump", "pop_2", "pop_3", "printer", "private", "red_i", "remote_job", "rje", "shell",
    "smtp", "sql_net", "ssh", "sunrpc", "supdup", "systat", "telnet", "tftp_u", "tim_i", "time", "urh_i",
    "urp_i", "uucp", "uucp_path", "vmnet", "whois", "X11", "Z39_50",
)  # fmt: skip
_FLAGS = ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH")
_BYTES = 2.0**32


def _share(name: str) -> Numeric:
    return Numeric(name, 0, 1)


def _few(name: str) -> Numeric:
    return Numeric(name, 0, 1_000, log=True)


FIELDS = (
    Numeric("duration", 0, 86_400, log=True),
    Category("protocol", ("icmp", "tcp", "udp")),
    Category("service", _SERVICES),
    Category("flag", _FLAGS),
    Numeric("src_bytes", 0, _BYTES, log=True),
    Numeric("dst_bytes", 0, _BYTES, log=True),
    _share("land"),
    *(_few(name) for name in ("wrong_fragment", "urgent", "hot", "num_failed_logins")),
    _share("logged_in"),
    _few("num_compromised"),
    *(_share(name) for name in ("root_shell", "su_attempted")),
    *(_few(name) for name in ("num_root", "num_file_creations", "num_shells", "num_access_files")),
    _few("num_outbound_cmds"),
    *(_share(name) for name in ("is_host_login", "is_guest_login")),
    *(Numeric(name, 0, 511) for name in ("count", "srv_count")),
    *(_share(f"{name}_rate") for name in ("serror", "srv_serror", "rerror", "srv_rerror", "same_srv",
    "diff_srv")),
    _share("srv_diff_host_rate"),
    *(Numeric(name, 0, 255) for name in ("dst_host_count", "dst_host_srv_count")),
    *(
        _share(f"dst_host_{name}_rate")
        for name in (
            "same_srv", "diff_srv", "same_src_port", "srv_diff_host", "serror", "srv_serror", "rerror",
            "srv_rerror",
        )
    ),
)  # fmt: skip


def kddcup99(folder: Path) -> Loaded:
    """494,021 connections; 80 % are attacks."""
    names = [field.name for field in FIELDS] + ["label"]
    frame = frame_of(folder / "kddcup99/kddcup.data_10_percent.gz", names=names)
    return Loaded(encode(frame, FIELDS), (frame["label"] != "normal.").to_numpy())
