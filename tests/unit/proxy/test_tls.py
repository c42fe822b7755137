import ssl
import subprocess
from pathlib import Path

import pytest

from sidecar.proxy.tls import (
    TlsFileError,
    listener_context,
    ssl_text,
    tls_problems,
    upstream_context,
)
from sidecar.settings.schema import Listener, ListenerTls, Settings, Upstream, UpstreamTls


def listener(chain, key, **words):
    return Listener(protocol="triple", tls=ListenerTls(certificate=chain, key=key, **words))


@pytest.fixture(scope="module")
def broken(certificates, tmp_path_factory):
    """Files that are almost right, by name."""
    directory = tmp_path_factory.mktemp("broken")
    chain, key = (Path(path).read_text() for path in certificates.server)

    def spoil(text):
        lines = text.splitlines()
        return "\n".join([lines[0], "AAAA" + lines[1][4:], *lines[2:]])

    files = {"chain": spoil(chain), "key": spoil(key), "empty": "", "binary": "\0\xff"}
    for name, text in files.items():
        (directory / name).write_text(text, encoding="latin-1")
    for name, kind in (("locked", "ec"), ("locked8", "pkcs8")):
        options = ["-topk8"] if kind == "pkcs8" else ["-aes128"]
        subprocess.run(
            ["openssl", kind, *options, "-in", certificates.server.key, "-passout", "pass:secret",
             "-out", directory / name],
            check=True, capture_output=True,
        )  # fmt: skip
    return {each.name: str(each) for each in directory.iterdir()}


def refusal(make, *arguments):
    with pytest.raises(TlsFileError) as caught:
        make(*arguments)
    return caught.value.field, str(caught.value)


def test_a_plain_listener_has_no_context():
    assert listener_context(Listener()) is None


def test_certificates_of_clients_are_asked_for_when_there_is_an_authority(certificates):
    plain = listener_context(listener(*certificates.server))
    assert plain.verify_mode == ssl.CERT_NONE
    asking = listener_context(listener(*certificates.server, client_ca=certificates.authority))
    assert asking.verify_mode == ssl.CERT_REQUIRED
    assert len(asking.get_ca_certs()) == 1
    for context in (plain, asking):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("chain", "key", "field", "why"),
    [
        ("none", "server", "certificate", "No such file or directory"),
        ("server", "none", "key", "No such file or directory"),
        (".", "server", "certificate", "Is a directory"),
        ("empty", "server", "certificate", "has no certificate in PEM form"),
        ("binary", "server", "certificate", "has no certificate in PEM form"),
        ("server", "empty", "key", "has no private key in PEM form"),
        ("chain", "server", "certificate", "cannot be read as PEM ([X509] PEM lib)"),
        ("server", "key", "key", "cannot be read as PEM ([SSL] PEM lib)"),
        ("chain", "key", "certificate", "cannot be read as PEM ([X509] PEM lib)"),
        ("server", "locked", "key", "is encrypted; the sidecar has no password for it"),
        ("server", "locked8", "key", "is encrypted; the sidecar has no password for it"),
    ],
)
def test_files_that_cannot_be_used(certificates, broken, tmp_path, chain, key, field, why):
    paths = {**broken, "none": str(tmp_path / "none"), ".": str(tmp_path)}
    chain = certificates.server.chain if chain == "server" else paths[chain]
    key = certificates.server.key if key == "server" else paths[key]
    path = chain if field == "certificate" else key
    assert refusal(listener_context, listener(chain, key)) == (field, f"{path}: {why}")
    upstream = UpstreamTls(certificate=chain, key=key)
    assert refusal(upstream_context, upstream, "") == (field, f"{path}: {why}")


def test_a_key_of_another_certificate(certificates):
    chain, key = certificates.server.chain, certificates.client.key
    expected = ("key", f"{key}: not the key of {chain}")
    assert refusal(listener_context, listener(chain, key)) == expected


def test_a_file_that_goes_meanwhile(certificates, monkeypatch):
    def gone(*_arguments, **_words):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", gone)
    field, text = refusal(listener_context, listener(*certificates.server))
    assert field == "certificate"
    assert text.endswith("No such file or directory")


@pytest.mark.parametrize(
    ("name", "why"),
    [("empty", "has no certificate in PEM form"), ("chain", "cannot be read as PEM")],
)
def test_authorities_that_cannot_be_used(certificates, broken, name, why):
    path = broken[name]
    field, text = refusal(listener_context, listener(*certificates.server, client_ca=path))
    assert field == "client_ca"
    assert text.startswith(f"{path}: {why}")
    field, text = refusal(upstream_context, UpstreamTls(ca=path), "h2")
    assert field == "ca"
    assert text.startswith(f"{path}: {why}")


def test_providers_are_verified_unless_that_is_switched_off(certificates):
    usual = upstream_context(UpstreamTls(), "h2")
    assert usual.verify_mode == ssl.CERT_REQUIRED
    assert usual.check_hostname
    own = upstream_context(UpstreamTls(ca=certificates.authority), "")
    assert len(own.get_ca_certs()) == 1
    assert own.check_hostname
    blind = upstream_context(UpstreamTls(verify=False, ca="/nowhere"), "")
    assert blind.verify_mode == ssl.CERT_NONE
    assert not blind.check_hostname


def test_all_problems_of_the_settings(certificates, tmp_path):
    none = str(tmp_path / "none")
    good = listener(*certificates.server)
    settings = Settings(
        listeners=[Listener(), good, listener(none, certificates.server.key)],
        upstream=Upstream(tls=UpstreamTls(ca=certificates.server.key)),
    )
    found = [(each.path, each.error.is_missing) for each in tls_problems(settings)]
    assert found == [
        (("listeners", 2, "tls", "certificate"), True),
        (("upstream", "tls", "ca"), False),
    ]
    unused = Settings(upstream=Upstream(tls=UpstreamTls(ca=none, mode="never")))
    assert list(tls_problems(unused)) == []


def test_words_for_errors():
    assert ssl_text(ssl.SSLError(1, "[SSL] PEM lib (_ssl.c:3900)")) == "[SSL] PEM lib"
    assert ssl_text(ssl.SSLError("odd")) == "('odd',)"
