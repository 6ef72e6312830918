"""Webhooks on the wire: signatures, refused addresses, and receivers that misbehave."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from interleaf.errors import InterleafError
from interleaf.server import webhooks
from interleaf.server.webhooks import WebhookSender, WebhookSettings, find_address_problem
from tests.support.receivers import (
    KEY,
    SECRET,
    Receiver,
    answered,
    answered_byte_by_byte,
    answered_endlessly,
    receiving,
)

NOW = 1_800_000_000


def send(receiver: Receiver, url: str | None = None, secrets: tuple[str, ...] = (SECRET,)) -> str:
    """The reason of a failure when the receiver's address is allowed."""
    url = url or receiver.url
    sender = WebhookSender(WebhookSettings((url,), secrets, allow_private=True))
    return sender.send(url, "evt_1", '{"type": "verdict"}', NOW)


def test_a_webhook_is_signed_with_every_secret_and_sent_with_its_path() -> None:
    older = b"k" * 24
    with receiving() as receiver:
        secrets = (SECRET, f"whsec_{base64.b64encode(older).decode()}")
        assert send(receiver, f"{receiver.url}/a?b=c", secrets) == ""
    (one,) = receiver.received
    assert (one.path, one.body) == ("/hook/a?b=c", b'{"type": "verdict"}')
    assert (one.headers["webhook-id"], one.headers["webhook-timestamp"]) == ("evt_1", str(NOW))
    assert one.headers["Content-Type"] == "application/json"
    assert one.is_signed(KEY)
    assert not one.is_signed(older)
    first, second = one.headers["webhook-signature"].split()
    one.headers["webhook-signature"] = second  # type: ignore[index]
    assert one.is_signed(older)
    assert first != second


@pytest.mark.parametrize("status", [200, 204, 299])
def test_each_status_of_success_counts(status: int) -> None:
    with receiving() as receiver:
        receiver.answer = answered(status)
        assert send(receiver) == ""


@pytest.mark.parametrize("status", [400, 410, 429, 500, 503])
def test_other_statuses_are_failures(status: int) -> None:
    with receiving() as receiver:
        receiver.answer = answered(status)
        assert send(receiver) == f"the answer was {status}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving() as inside, receiving() as receiver:
        receiver.answer = answered(status, Location=inside.url)
        assert send(receiver) == f"the answer was {status}, a redirect, which is not followed"
        assert len(receiver.received) == 1
        assert inside.received == []


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert send(receiver) == ""
        assert (len(receiver.received), proxy.received) == (1, [])


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(5)


@pytest.mark.parametrize("answer", [hang, answered_byte_by_byte], ids=["hangs", "a byte now and then"])
def test_a_receiver_that_is_too_slow_is_left(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    monkeypatch.setattr(webhooks, "MAX_SECONDS", 0.5)
    with receiving() as receiver:
        receiver.answer = answer
        begin = time.monotonic()
        assert "imeout" in send(receiver)
        assert time.monotonic() - begin < 4


def test_a_huge_answer_is_not_read() -> None:
    with receiving() as receiver:
        receiver.answer = answered_endlessly
        begin = time.process_time()
        assert send(receiver) == ""
        assert time.process_time() - begin < 1


def test_an_answer_with_an_endless_head_is_a_failure() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000)

    with receiving() as receiver:
        receiver.answer = answer
        assert send(receiver).startswith("HTTPException")


def test_what_does_not_speak_http_is_a_failure() -> None:
    with receiving() as receiver:
        receiver.answer = lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n")
        assert send(receiver).startswith("BadStatusLine")


def test_nobody_listening_is_a_failure() -> None:
    with receiving() as receiver:
        pass
    assert "ConnectionRefusedError" in send(receiver)


# Addresses.

PRIVATE = (
    *("127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "169.254.0.1", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1"),
    *("198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("168.63.129.16", "0.1.2.3"),
    *("::", "::1", "fe80::1", "fe80::1%1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::ffff:0:127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a00:1::1"),
    *("2001:0:4136:e378:8000:63bf:80ff:fffe", "100::1"),
)
PUBLIC = ("93.184.215.14", "1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "64:ff9b::808:808")


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused(address: str) -> None:
    assert find_address_problem(address) == f"is not public ({address})"


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert find_address_problem(address) == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "localhost", "a.localhost."])
def test_a_host_that_is_known_to_be_private_is_refused_at_the_start(host: str) -> None:
    with pytest.raises(InterleafError, match=r"is not public.*--webhook-allow-private"):
        WebhookSettings((f"http://{host}/hook",), (SECRET,))
    WebhookSettings((f"http://{host}/hook",), (SECRET,), allow_private=True)


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.0.0.1.", "0", "1.1.1.1"]
)
def test_other_spellings_of_this_machine_are_refused_before_anything_connects(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host == "1.1.1.1":  # a name that the resolver leads here, whatever it says
        look_up = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", lambda _, port, **more: look_up("127.0.0.1", port, **more))
    with receiving() as receiver:
        url = receiver.url.replace("127.0.0.1", host)
        reason = WebhookSender(WebhookSettings((url,), (SECRET,))).send(url, "evt_1", "{}", NOW)
        assert "is not public" in reason or reason.startswith("gaierror"), reason
        assert receiver.received == []


def test_one_private_address_of_several_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        places = ("93.184.215.14", port), ("127.0.0.1", port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    tried: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, place: tried.append(place))
    url = "http://alerts.example/"
    reason = WebhookSender(WebhookSettings((url,), (SECRET,))).send(url, "evt_1", "{}", NOW)
    assert (
        reason == "alerts.example is not public (127.0.0.1); the operator can allow that with --webhook-allow-private"
    )
    assert tried == []


def test_the_host_is_looked_up_once_so_that_the_checked_address_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS that answers with a public address first, and with this machine the next time."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        place = ("93.184.215.14" if len(asked) == 1 else "127.0.0.1", port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place)]

    tried: list[object] = []

    def connect(_: socket.socket, place: object) -> None:
        tried.append(place)
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket.socket, "connect", connect)
    url = "http://alerts.example:8123/"
    reason = WebhookSender(WebhookSettings((url,), (SECRET,))).send(url, "evt_1", "{}", NOW)
    assert reason == "ConnectionRefusedError: nobody is there"
    assert (asked, tried) == (["alerts.example"], [("93.184.215.14", 8123)])


# TLS.


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate of its own for a host, and the certificate's file."""
    key, public = folder / f"{name}.key", folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    options = [
        "-keyout",
        str(key),
        "-out",
        str(public),
        "-subj",
        f"/CN={name}",
        "-addext",
        f"subjectAltName=DNS:{name}",
    ]
    subprocess.run([*command, *options], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, key)
    return context, public


def test_the_certificate_must_be_trusted_and_name_the_host(tmp_path: Path) -> None:
    context, public = certificate(tmp_path, "localhost")
    with receiving(context) as receiver:
        url = receiver.url.replace("127.0.0.1", "localhost")
        for trusted, address, problem in (
            (public, url, ""),
            (None, url, "self-signed certificate"),
            (public, receiver.url, "IP address mismatch"),
        ):
            client = ssl.create_default_context(cafile=trusted)
            settings = WebhookSettings((address,), (SECRET,), allow_private=True)
            reason = WebhookSender(settings, client).send(address, "evt_1", "{}", NOW)
            assert problem in reason
            assert bool(problem) == bool(reason)
        assert len(receiver.received) == 1


# Settings.


@pytest.mark.parametrize(
    ("urls", "secrets", "remedy"),
    [
        (
            ("ftp://alerts.example/",),
            (SECRET,),
            r"'ftp://alerts.example/' is not a web address; give one such as 'http",
        ),
        (("https:///path",), (SECRET,), "is not a web address"),
        (("https://alerts.example:99999/",), (SECRET,), "is not a web address"),
        (("https://alerts.example/a b",), (SECRET,), "is not a web address"),
        (("https://alerts.example/\r\nHost: x",), (SECRET,), "is not a web address"),
        (
            ("https://me:word@alerts.example/",),
            (SECRET,),
            "^the address at alerts.example contains a user name",
        ),
        (("https://alerts.example/",), (), "webhooks need a secret; give --webhook-secret-file, made with"),
        ((), ("word",), "a webhook secret is whsec_ and 24 to 64 random bytes in base64; make one with"),
        ((), (SECRET.removeprefix("whsec_"),), "a webhook secret is whsec_ and"),
        ((), ("whsec_" + base64.b64encode(b"short").decode(),), "a webhook secret is whsec_ and"),
        ((), ("whsec_not base64!",), "a webhook secret is whsec_ and"),
    ],
)
def test_wrong_settings_are_refused_with_the_remedy(
    urls: tuple[str, ...], secrets: tuple[str, ...], remedy: str
) -> None:
    with pytest.raises(InterleafError, match=remedy) as problem:
        WebhookSettings(urls, secrets)
    assert "word@" not in str(problem.value)
    assert all(secret not in str(problem.value) for secret in secrets if secret != "word")


def test_secrets_are_not_shown() -> None:
    assert SECRET not in repr(WebhookSettings(secrets=(SECRET,)))


def test_an_address_that_was_removed_gets_nothing() -> None:
    with receiving() as receiver:
        sender = WebhookSender(WebhookSettings((), (SECRET,), allow_private=True))
        reason = sender.send(receiver.url, "evt_1", "{}", NOW)
        assert (reason, receiver.received) == ("the service no longer sends webhooks to this address", [])
