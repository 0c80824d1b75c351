"""The protocols of MP-SPDZ that an engine may be asked for: arithmetic shares, and any M - 1 of M parties corrupt.

Left out on purpose: honest-majority and dealer protocols (another trust model), the covert ones (cowgear, chaigear),
mama (mascot with several MACs), protocols on bits, and NOT_OFFERED. Facts are upstream's: README, "Secret sharing" and
"Preprocessing as required", and `type_short()` of the share types.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdml_spdz.errors import StudyError

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

DEFAULT = "hemi"  # the fewest bytes, and no more time, from a few hundred triples on (docs/mp-spdz.md)
ALL_BUT_ONE = "any M - 1 parties"


@dataclass(frozen=True)
class Protocol:
    """
    party : the program that computes; offline : the one that only makes the offline material, where upstream has one.
    domain : "prime" (compiled with -F) or "ring" (compiled with -R).
    short : the share type's shorthand in the names of offline files: <M>-<short>-<bits>/Triples-<short>-P<i>.
    security : in words; parties : how many.
    """

    name: str
    party: str
    offline: str | None
    domain: str
    malicious: bool
    corruptions: str
    short: str
    security: str
    parties: str = "2 or more"

    @property
    def own_masks(self) -> bool:
        """Parties may input the masks of truncations: they follow the program anyway, and a prime has room."""
        return not self.malicious and self.domain == "prime"

    @property
    def number_type(self) -> str:
        """What the names of its machines, one for each length of numbers, have before that length in a program:
        bits of a ring, words of a prime. (Shares of other lengths are among spdz2k's types, too, and are no rings to
        compute in: a ring's machine is told by its name from the beginning.)
        """
        share = "Share" if self.name == "mascot" else f"{self.name.capitalize()}Share"
        named = f"I{len(share)}{share}I"
        return f"7Machine{named}Li" if self.domain == "ring" else f"{named}4gfp_ILi0ELi"


def _protocol(name: str, domain: str, short: str, security: str, *, malicious: bool, offline: bool) -> Protocol:
    offline_program = f"{name}-offline.x" if offline else None
    return Protocol(name, f"{name}-party.x", offline_program, domain, malicious, ALL_BUT_ONE, short, security)


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        _protocol("mascot", "prime", "p", "oblivious transfer, MACs", malicious=True, offline=True),
        # The shorthand holds the ring's k and the security parameter s.
        _protocol("spdz2k", "ring", "Z{k},{s}", "oblivious transfer, MACs", malicious=True, offline=False),
        _protocol("semi", "prime", "Dp", "oblivious transfer", malicious=False, offline=True),
        _protocol("semi2k", "ring", "DR", "oblivious transfer", malicious=False, offline=True),
        _protocol("hemi", "prime", "Dp", "semi-homomorphic encryption", malicious=False, offline=True),
        _protocol("temi", "prime", "Dp", "threshold semi-homomorphic encryption", malicious=False, offline=False),
        _protocol("soho", "prime", "Dp", "somewhat homomorphic encryption", malicious=False, offline=False),
    )
}

# Malicious, by homomorphic encryption: keys with proofs that all parties make together, which MP-SPDZ keeps beside the
# material, and looks for there. A directory for every execution, of which nothing stays, has none from before.
_KEYS = "it makes keys anew in every run, which takes longer than the run"
NOT_OFFERED = {"lowgear": _KEYS, "highgear": _KEYS}


def protocol_of(study: Study) -> Protocol:
    return protocol(study.protocol or DEFAULT)


def protocol(name: str) -> Protocol:
    """The protocol called `name`."""
    if name in NOT_OFFERED:
        found = f"the protocol {name} is not offered: {NOT_OFFERED[name]}."
        raise StudyError(found, "another malicious protocol", "--protocol mascot")
    if name not in PROTOCOLS:
        near = difflib.get_close_matches(name, PROTOCOLS, 3)
        hint = f"did you mean {' or '.join(f'`{other}`' for other in near)}?" if near else ""
        raise StudyError(f"there is no protocol `{name}`.", f"one of {', '.join(PROTOCOLS)}", hint)
    return PROTOCOLS[name]
