"""Who may open the dashboard and act there; names of strangers; files; what a page may load and run."""

from __future__ import annotations

import re
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interleaf.server.dashboard import static_files
from interleaf.server.dashboard.visit import COOKIE
from tests.support.dashboards import TOKEN, Elements, Visitor
from tests.support.services import Live, live

PAGES = ("/", "/experiments/shoes", "/experiments/shoes/live", "/experiments/shoes/edit", "/experiments/new", "/keys")
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT}\x1b[31m\u202e'\"&amp;</textarea></script>{{{{7*7}}}}<img src=x onerror=alert(2)>"
PRINTED = f"{SCRIPT}'\"&amp;</textarea>{{{{7*7}}}}<img src=x onerror=alert(2)>"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as found:
        yield found


@pytest.fixture
def visitor(service: Live) -> Visitor:
    """At a service with keys, and an experiment."""
    service.make()
    service.make_keys()
    return Visitor(service)


def status(answer: Any) -> int:
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return int(answer.status_code)


def test_without_a_login_every_page_asks_for_a_key_and_goes_on_to_what_was_wanted(visitor: Visitor) -> None:
    for path in PAGES:
        assert status(visitor.open(path)) == 401
    form = visitor.open("/experiments/shoes?version=1").text
    wanted = next(field["value"] for field in Elements(form).of("input") if field["name"] == "next")
    assert wanted == "/experiments/shoes?version=1"
    entered = visitor.client.post("/login", data={"key": visitor.service.keys["read"], "next": wanted})
    assert (entered.status_code, entered.url.path) == (200, "/experiments/shoes")


@pytest.mark.parametrize("onward", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_a_login_goes_on_to_pages_of_ours_only(visitor: Visitor, onward: str) -> None:
    data = {"key": visitor.service.keys["read"], "next": onward}
    answer = visitor.client.post("/login", data=data, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_holds_no_secret(visitor: Visitor) -> None:
    secret = visitor.service.keys["admin"]
    answer = visitor.client.post("/login", data={"key": secret}, follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"))
    assert secret not in cookie
    over_https = visitor.client.post("https://127.0.0.1/login", data={"key": secret}, follow_redirects=False)
    assert "Secure" in over_https.headers["set-cookie"]


def test_readers_see_everything_but_keys_and_act_nowhere(visitor: Visitor) -> None:
    visitor.log_in("read")
    for path in ("/", "/experiments/shoes", "/experiments/shoes/live", "/experiments/shoes/export"):
        assert visitor.open(path).status_code == 200, path
    page = visitor.open("/experiments/shoes").text
    assert 'id="actions"' not in page
    assert "/experiments/new" not in visitor.open("/").text
    for path in ("/experiments/new", "/experiments/shoes/edit", "/keys"):
        assert status(visitor.open(path)) == 403
    for path in ("/experiments/shoes/stop", "/experiments/new", "/keys", "/keys/revoke"):
        answer = visitor.send("/", path, name="boots", rankers="a\nb", role="admin", label="x")
        assert (status(answer), "for admin keys" in answer.text) == (403, True)
    assert visitor.service.store.experiment("shoes").state == "running"


def test_ingest_keys_and_unknown_ones_do_not_open_the_dashboard(visitor: Visitor) -> None:
    refused = visitor.log_in("ingest")
    assert (status(refused), "this key&#39;s role is ingest" in refused.text) == (403, True)
    assert status(visitor.client.post("/login", data={"key": "il_admin_guessed"})) == 401
    assert status(visitor.client.post("/login", data={"next": "/"})) == 401
    assert COOKIE not in visitor.client.cookies


def test_forms_without_their_token_or_with_anothers_do_nothing(visitor: Visitor) -> None:
    visitor.log_in("read")
    other = TOKEN.search(visitor.open("/").text)
    visitor.log_in("admin")
    own = TOKEN.search(visitor.open("/").text)
    assert own is not None
    assert other is not None
    for token in (other[1], "", "guess", own[1][:-1], "ü" * 24):
        answer = visitor.client.post("/experiments/shoes/stop", data={"token": token})
        assert (status(answer), "out of date" in answer.text) == (403, True)
    assert visitor.service.store.experiment("shoes").state == "running"
    assert visitor.client.post("/experiments/shoes/stop", data={"token": own[1]}).status_code == 200
    assert visitor.service.store.experiment("shoes").state == "stopped"


def test_without_keys_no_login_is_asked_for_but_forms_still_carry_a_token(service: Live) -> None:
    service.make()
    visitor = Visitor(service)
    assert visitor.open("/login").url.path == "/"
    assert status(visitor.client.post("/experiments/shoes/stop", data={"decision": "x"})) == 403
    token = TOKEN.search(visitor.open("/experiments/shoes").text)
    assert token is not None
    visitor.client.cookies.clear()  # somebody who has read the page, and is another browser
    assert status(visitor.client.post("/experiments/shoes/stop", data={"token": token[1]})) == 403
    assert visitor.send("/experiments/shoes", "/experiments/shoes/stop").status_code == 200


def test_keys_are_made_shown_once_and_revoked_at_once(service: Live) -> None:
    visitor = Visitor(service)
    refused = visitor.send("/keys", "/keys", role="read", label="me")
    assert (status(refused), service.store.keys()) == (422, [])
    assert status(visitor.send("/keys", "/keys", role="admin", label="\x1b")) == 422
    made = visitor.send("/keys", "/keys", role="admin", label=PRINTED[:90])
    (secret,) = re.findall(r'id="secret">(il_admin_[^<]+)<', made.text)
    assert secret not in visitor.open("/keys").text
    assert visitor.open("/").status_code == 200  # who made the first key goes on with it
    (admin,) = service.store.keys()
    assert status(visitor.send("/keys", "/keys/revoke", key=admin.id)) == 409
    made = visitor.send("/keys", "/keys", role="read", label="reports")
    (read,) = re.findall(r'id="secret">(il_read_[^<]+)<', made.text)
    entered = service.client.post("/login", data={"key": read}, follow_redirects=False)
    reading = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
    service.client.cookies.clear()
    assert service.client.get("/", headers=reading).status_code == 200
    service.client.post("/login", data={"key": secret})
    assert visitor.send("/keys", "/keys/revoke", key=key_of(service, "read")).status_code == 200
    service.client.cookies.clear()
    assert service.client.get("/", headers=reading).status_code == 401
    service.client.post("/login", data={"key": secret})
    visitor.send("/keys", "/keys", role="admin", label="another")
    own = visitor.send("/keys", "/keys/revoke", key=admin.id)
    assert (own.status_code, own.url.path) == (200, "/login")
    assert "You revoked the key that you were logged in with" in own.text


def key_of(service: Live, role: str) -> str:
    (found,) = [key.id for key in list(service.store.keys()) if key.role == role]
    return str(found)


@pytest.mark.parametrize(
    ("headers", "content", "expected"),
    [
        ({"Content-Type": "application/json"}, b"{}", 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=" + b"x" * 1_000_001, 413),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"&".join([b"a=1"] * 300), 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"name=\xff\xfe", 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"name=%00&token=%ff%00", 403),
    ],
)
def test_what_is_no_form_of_ours_is_refused(
    service: Live, headers: dict[str, str], content: bytes, expected: int
) -> None:
    service.client.get("/")
    assert status(service.client.post("/experiments/new", content=content, headers=headers)) == expected


def test_names_of_strangers_are_never_markup(service: Live) -> None:
    rankers = [PRINTED, "candidate"]
    kind = PRINTED.replace("=", "")
    events = {kind: 1.0, "click": 2.0}
    service.make(rankers=rankers, by=[PRINTED], events=events, primary=kind, bot_agents=[PRINTED])
    rankings = {PRINTED: [HOSTILE, "b", "c"], "candidate": ["c", HOSTILE, "b"]}
    for unit in range(6):
        more: dict[str, Any] = {"attributes": {PRINTED: HOSTILE, "x": "y"}, "captions": {HOSTILE: {"title": HOSTILE}}}
        if unit % 2:
            more["fixed"] = {"1": HOSTILE + "fixed"}
        shown = service.show(HOSTILE + str(unit), HOSTILE, rankings=rankings, **more).json()
        service.tell(*({"impression": shown["impression"], "rank": rank, "kind": kind} for rank in (1, 2)))
    service.tell({"impression": HOSTILE, "rank": 1})
    visitor = Visitor(service)
    visitor.send("/keys", "/keys", role="admin", label=PRINTED)
    typed = dict.fromkeys(("name", "rankers", "events", "k"), HOSTILE)
    answers = [visitor.send("/experiments/new", "/experiments/new", **typed)]
    visitor.send("/experiments/shoes", "/experiments/shoes/stop")
    visitor.send("/experiments/shoes", "/experiments/shoes/decide", decision=HOSTILE)
    answers += [visitor.open(path) for path in (*PAGES, "/experiments/%3Cscript%3Ealert(1)%3C%2Fscript%3E")]
    answers.append(visitor.open("/experiments/shoes", params={"version": HOSTILE}))
    answers.append(visitor.client.post("/login", data={"key": HOSTILE, "next": HOSTILE}))
    assert [answer.status_code for answer in answers] == [422, *[200] * 6, 404, 404, 401]
    for answer in answers:
        check_page(answer.text)
    shown = Elements(visitor.open("/experiments/shoes").text).text
    assert shown.count("alert(2)") > 20
    assert "{{7*7}}" in shown


def check_page(html: str) -> None:
    """No markup of strangers, nothing inline that would run, no character that a reader cannot see."""
    assert SCRIPT not in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", html)
    page = Elements(html)
    for script in page.of("script"):
        assert script.get("type") == "application/json" or str(script["src"]).startswith("/static/")
    assert not page.of("style")
    for tag, attributes in page.found:
        assert not {name for name in attributes if name == "style" or name.startswith("on")}, tag
        assert tag != "img" or attributes["src"] == "/static/icon.svg"
        assert not str(attributes.get("href", "/")).startswith(("javascript", "data", "http"))


def test_every_page_is_under_a_strict_policy_and_kept_by_nobody(service: Live) -> None:
    service.make()
    for path in (*PAGES, "/experiments/boots"):
        headers = service.client.get(path).headers
        policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
        assert (policy["frame-ancestors"], policy["form-action"], policy["base-uri"]) == ("'none'", "'self'", "'none'")
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


def test_the_script_for_charts_is_made_once_however_many_ask(
    service: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path / "cache"))
    runs, run = list[Any](), subprocess.run

    def note(*given: Any, **more: Any) -> Any:
        runs.append(given)
        return run(*given, **more)

    monkeypatch.setattr(subprocess, "run", note)
    static_files.vega.cache_clear()
    static_files.prepare.cache_clear()
    with ThreadPoolExecutor(4) as viewers:
        answers = list(viewers.map(service.client.get, ["/static/vega.js"] * 4))
    assert {answer.status_code for answer in answers} == {200}
    assert all(b"vegaEmbed" in answer.content for answer in answers)
    assert len(runs) == 1
    (path,) = (tmp_path / "cache/charts").iterdir()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]
    static_files.vega.cache_clear()  # as in the next process
    made = static_files.vega()
    assert made is not None
    assert (made.data, len(runs)) == (answers[0].content, 1)


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_script_that_others_could_have_written_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path))
    monkeypatch.setattr(static_files, "_BUNDLE", "print('made', end='')")
    assert static_files.chart_script() == b"made"
    (path,) = (tmp_path / "charts").iterdir()
    path.write_bytes(b"kept")
    assert static_files.chart_script() == b"kept"
    (path.parent if is_folder else path).chmod(0o777)
    assert static_files.chart_script() == b"made"
    path.parent.chmod(0o700)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(b"foreign")
    assert static_files.chart_script() == b"made"


def test_without_the_script_for_charts_the_file_is_missing(
    service: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(static_files, "_BUNDLE", "raise SystemExit(1)")
    static_files.vega.cache_clear()
    static_files.prepare.cache_clear()
    try:
        assert service.client.get("/static/vega.js").status_code == 404
    finally:
        static_files.vega.cache_clear()
        static_files.prepare.cache_clear()


def test_files_are_sent_packed_once_and_only_ours(service: Live) -> None:
    for name in ("page.css", "dashboard.css", "dashboard.js", "icon.svg"):
        answer = service.client.get(f"/static/{name}")
        assert (answer.status_code, answer.content) == (200, static_files.own_files()[name].data)
        assert answer.headers["content-encoding"] == "gzip"
        again = service.client.get(f"/static/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        plain = service.client.get(f"/static/{name}", headers={"Accept-Encoding": "identity"})
        assert (plain.content, "content-encoding" in plain.headers) == (answer.content, False)
    for name in ("nothing.js", "..%2f__init__.py", "%2e%2e/app.py", "templates/live.html"):
        assert service.client.get(f"/static/{name}").status_code == 404


def test_the_script_for_other_sites_may_be_used_by_them_and_no_other_file(service: Live) -> None:
    given = service.client.get("/static/interleaf.js")
    assert (given.status_code, given.headers["access-control-allow-origin"]) == (200, "*")
    assert "access-control-allow-origin" not in service.client.get("/static/dashboard.js").headers
