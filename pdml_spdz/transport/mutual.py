"""Mutual TLS between parties that have pinned each other's certificates, and the first word on a connection."""

from __future__ import annotations

import contextlib
import hashlib
import ssl

from pdml_spdz.errors import CertificateError
from pdml_spdz.transport.certs import Identity

WELCOME = b"\x01"
REACH = "pdml-spdz-reach"  # what a party says that only wants to know whether it gets through (`reach`)


def tls_context(identity: Identity, protocol: int) -> ssl.SSLContext:
    """Mutual TLS 1.3 with the pinned certificates, and no others."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # identity is the pinned certificate, not a name in the DNS
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(identity.cert_path, identity.key_path)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(
            f"{identity.key_path} does not belong to {identity.cert_path} ({error}).",
            "the key and the certificate that were made together",
            f"`pdml-spdz certs make --id {identity.me} --force`, then send P{identity.me}.pem to the others",
        ) from None
    for party, certificate in identity.certificates.items():
        if party != identity.me:
            context.load_verify_locations(certificate.path)
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # nobody resumes a session; unread tickets would turn close into reset
        context.set_alpn_protocols([REACH])  # whoever asks for a run asks for no protocol by name
    return context


def party_of(identity: Identity, sock: ssl.SSLSocket) -> int | None:
    """Whose pinned certificate the other end has shown."""
    der = sock.getpeercert(binary_form=True)
    digest = hashlib.sha256(der).hexdigest() if der else ""
    return next((p for p, c in identity.certificates.items() if c.fingerprint == digest), None)


def answer_reach(sock: ssl.SSLSocket) -> None:
    """Say that a party has got through; it takes part in nothing."""
    with contextlib.suppress(OSError):
        sock.send(WELCOME)
    sock.close()
