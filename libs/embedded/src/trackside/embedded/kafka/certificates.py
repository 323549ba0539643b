"""Certificates of an embedded broker: an authority of its own, and certificates that it signs."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trackside.eventlog.clock import now_ms

YEARS = timedelta(days=3653)
"""How long certificates are valid: as long as a folder on one machine is used."""
EARLIER = timedelta(days=1)
"""How long before now they begin, for a clock that is behind."""


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, both in PEM."""

    certificate: bytes
    key: bytes


def new_authority(name: str) -> Certificate:
    """Returns the certificate and key of a new authority, which signs others."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    built = (
        _begun(subject, subject, key.public_key(), _now() + YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _pem(built.sign(key, SHA256()), key)


def issue(
    authority: Certificate, name: str, hosts: Sequence[str], ends: datetime | None = None
) -> Certificate:
    """Returns a certificate for hosts (names or addresses) and its key, valid until `ends`.

    For a client, `hosts` is empty.
    """
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing = load_pem_private_key(authority.key, None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey), "authorities are made here"
    key = ec.generate_private_key(ec.SECP256R1())
    built = (
        _begun(signer.subject, _named(name), key.public_key(), ends or _now() + YEARS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
    )
    if hosts:
        built = built.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), False)
    return _pem(built.sign(signing, SHA256()), key)


def _now() -> datetime:
    return datetime.fromtimestamp(now_ms() / 1000, UTC)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(_now(), ends) - EARLIER)
        .not_valid_after(ends)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Certificate:
    return Certificate(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
