"""mTLS for links and control: both sides show a certificate of the cluster's own authority.

FOLDER/ca.crt       the authority
FOLDER/node.crt     the certificate of this manager or client
FOLDER/node.key     its key
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vms.errors import UserError

_FILES = ("ca.crt", "node.crt", "node.key")


@dataclass(frozen=True)
class Credentials:
    """The three files of a folder."""

    authority: bytes
    certificate: bytes
    key: bytes

    @staticmethod
    def read(folder: Path | str) -> Credentials:
        missing = [name for name in _FILES if not Path(folder, name).is_file()]
        if missing:
            raise UserError(f"{folder} has no {', '.join(missing)}; for a trial, make them with vms certs dev {folder}")
        return Credentials(*(Path(folder, name).read_bytes() for name in _FILES))

    def server(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials([(self.key, self.certificate)], self.authority, require_client_auth=True)

    def channel(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)


def make_trial_certificates(folder: Path, hosts: Sequence[str], days: int = 30) -> None:
    """An authority and one certificate for these hosts. For trials: the authority's key is thrown away."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = [name for name in _FILES if (folder / name).exists()]
    if taken:
        raise UserError(f"{folder} has {', '.join(taken)} already; choose another folder")
    now = datetime.datetime.now(datetime.UTC)
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "VMS trial authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "VMS trial node")])

    def begin(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number())
        return builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=days))

    root = begin(issuer, authority.public_key()).add_extension(x509.BasicConstraints(True, 0), critical=True)
    names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    node = begin(subject, key.public_key()).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(root.sign(authority, hashes.SHA256()).public_bytes(pem))
    (folder / "node.crt").write_bytes(node.sign(authority, hashes.SHA256()).public_bytes(pem))
    private = folder / "node.key"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
