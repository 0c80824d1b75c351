"""Shares of (sum_m S_m)(sum_l R_l) mod 2^w, where party m alone knows S_m and R_m."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import MismatchError, QuotaError, StudyError
from pdml_spdz.lattice import cost
from pdml_spdz.lattice.encryption import CiphertextSet, KeyHolder, PublicKey, RingKey, from_bytes, to_bytes
from pdml_spdz.lattice.exact import multiply
from pdml_spdz.lattice.packing import blocks
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.residues import DIGIT, Digits
from pdml_spdz.lattice.response import ROWS, Ciphertexts, Responder, short_polynomials
from pdml_spdz.lattice.ring_parameters import RingParameters
from pdml_spdz.lattice.sampling import KEY
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link, misfit

Progress: TypeAlias = Callable[[int, int], None]  # steps done, steps in all

PIECE = 16  # ciphertexts in a message: 10 MB
KEYS, ENCRYPTED, RETURNED = "lattice:keys", "lattice:encrypted", "lattice:returned"


def share_product(
    link: Link,
    S: NDArray[Any],
    R: NDArray[np.uint64],
    parameters: Parameters,
    *,
    progress: Progress | None = None,
) -> NDArray[np.uint64]:
    """This party's share of (sum_m S_m)(sum_l R_l) mod 2^w; for `count` products of one shape, all of them at once.

    S : this party's left matrix, int64 (n, i), or numbers of numerics/ring.py read as signed, (n, i, limbs)
    R : this party's right matrix, uniform mod 2^w, (i, c, limbs)
    Where packing.count > 1 both have one more axis in front. Returns (n, c, limbs), or (count, n, c, limbs).

    1. l draws a key of this run and sends (p0, p1), its public sample; p1 is a seed.
    2. l encrypts R_l and sends the same ciphertexts to all peers, c0 and the seed of a;
    3. m returns, to each l, S_m times them, with a fresh encryption of zero, flooding and a mask, and takes minus
       the mask as its share of S_m R_l (`response`).
    4. l decrypts S_m R_l + mask: its share of S_m R_l. Each adds up its shares and its own S_m R_m.

    *Reveals:* nothing, to M - 1 colluding parties, if ring-LWE is hard (docs/security.md): up to the statistical
    distance 2^`parameters.distance`.
    *Cost:* 1 round, and for each unit of the layout one for 16 ciphertexts and one for 16 responses; bytes are
    `parameters.sent`.
    *Ref:* the multiplication of Brakerski (CRYPTO 2012) and Fan, Vercauteren (ePrint 2012/144) by a plaintext;
    flooding as in Damgård, Pastro, Smart, Zakarias (CRYPTO 2012); coefficients as in Huang, Lu, Hong, Ding, "Cheetah"
    (USENIX Security 2022).
    """
    one = parameters.packing.count == 1 and R.ndim == 3
    left, right = (S[None], R[None]) if one else (S, R)
    masks, decrypted = Cross(link, left, right, parameters, progress=progress)()
    share = added([multiply(left, right, parameters.w), masks, *decrypted.values()])
    return share[0] if one else share


class Cross:
    """Shares of S_m R_l for every ordered pair of parties, steps 1 to 4 of `share_product`.

    S : (count, n, i) or (count, n, i, limbs)
    R : (count, i, c, limbs), or one for each peer: then m gets shares of S_m R_lm
    """

    def __init__(
        self,
        link: Link,
        S: NDArray[Any],
        R: NDArray[np.uint64] | Mapping[int, NDArray[np.uint64]],
        parameters: Parameters,
        *,
        progress: Progress | None = None,
    ) -> None:
        p = parameters
        self._link, self._S, self._p, self._progress = link, S, p, progress
        self._R: dict[int | None, NDArray[np.uint64]] = {}
        if isinstance(R, Mapping):
            self._R.update(R.items())
        else:
            self._R[None] = R
        _check_left(S, p, link.M)
        for right in self._R.values():
            _check_right(right, p)
        self._holder = KeyHolder(p)
        layout = p.packing
        self._columns = layout.units // layout.groups
        self._at_once = cost.at_once(layout, p.M, p.N, p.count)
        sending = layout.units * blocks(layout.ciphertexts, PIECE)
        returning = layout.groups * blocks(self._columns, self._at_once) * blocks(layout.responses, ROWS)
        self._done, self._steps = 0, 1 + sending + returning

    def __call__(self) -> tuple[NDArray[np.uint64], dict[int, NDArray[np.uint64]]]:
        """This party's shares, (count, n, c, limbs): of its own S times what peers have, added up; and by peer, of the
        peer's S times what this party has.
        """
        p, layout, link = self._p, self._p.packing, self._link
        shape = layout.count, layout.n, layout.c, ring.limbs(p.w)
        self._masks = np.zeros(shape, np.uint64)
        self._decrypted = {peer: np.zeros(shape, np.uint64) for peer in link.peers}
        with link.clock("crypto"):
            self._keys = public_keys(link, p, self._holder)
            self._step()
            self._responders = {peer: Responder(p, key) for peer, key in self._keys.items()}
            for group in range(layout.groups):
                for first in range(0, self._columns, self._at_once):
                    columns = range(first, min(first + self._at_once, self._columns))
                    ciphertexts = self._receive(group, columns)
                    for which, short in short_polynomials(p, self._S, group):
                        self._return(ciphertexts.multiply(short), group, columns, which)
        return self._masks, self._decrypted

    def _receive(self, group: int, columns: range) -> Ciphertexts:
        """Send this party's ciphertexts of some blocks of columns, and take in those of all peers."""
        p, link = self._p, self._link
        size, count = cost.ciphertext_bytes(p.N, p.count), p.packing.ciphertexts
        received = Ciphertexts(p, link.peers, len(columns))
        everyone = None in self._R
        theirs = None if everyone else link.me  # what peers have made for all, or for this party
        for place, column in enumerate(columns):
            own = {to: self._holder.encrypt(R, CiphertextSet(group, column, to)) for to, R in self._R.items()}
            for first in range(0, count, PIECE):
                many = min(PIECE, count - first)
                messages = {to: np.concatenate([next(made) for _ in range(many)]) for to, made in own.items()}
                outgoing = {peer: messages[None if everyone else peer] for peer in link.peers}
                for peer, raw in self._exchange(ENCRYPTED, outgoing, many * size).items():
                    for k in range(many):
                        piece, unit = raw[k * size : (k + 1) * size], CiphertextSet(group, column, theirs)
                        received.put(peer, self._keys[peer], piece, unit, place, first + k)
        return received

    def _return(self, products: NDArray[np.float32], group: int, columns: range, which: range) -> None:
        """Answer all peers with some responses of some columns; decrypt theirs."""
        layout, link = self._p.packing, self._link
        wanted = np.stack([layout.results(response).reshape(-1) for response in which])
        outgoing: dict[int, NDArray[np.uint16]] = {}
        for index, peer in enumerate(link.peers):
            answers = [self._responders[peer].respond(products[:, index, j], wanted) for j in range(len(columns))]
            outgoing[peer] = np.concatenate([part for answer in answers for part in (answer.c1, answer.c0)])
            for column, answer in zip(columns, answers, strict=True):
                self._add(self._masks, answer.share, group, column, which)
        size = next(iter(outgoing.values())).nbytes
        for peer, raw in self._exchange(RETURNED, outgoing, size).items():
            digits = np.frombuffer(raw, "<u2").reshape(len(columns), -1, self._p.travel_bits // DIGIT)
            for column, (c1, c0) in zip(columns, _halves(digits, len(which) * self._p.N), strict=True):
                self._add(self._decrypted[peer], self._holder.decrypt(c1, c0, wanted), group, column, which)

    def _add(self, share: NDArray[np.uint64], numbers: ring.Vector, group: int, column: int, which: range) -> None:
        """Add results of responses to the products that they belong to."""
        layout = self._p.packing
        results = numbers.reshape(len(which), layout.h, layout.n_w, layout.c_w, -1)
        for response, values in zip(which, results, strict=True):
            for product, rows, columns, x in layout.targets(response, group, column):
                place = share[product, rows, columns]
                kept = values[x, : place.shape[0], : place.shape[1]]
                total = ring.add(place.reshape(-1, place.shape[2]), kept.reshape(-1, place.shape[2]))
                share[product, rows, columns] = total.reshape(place.shape)

    def _exchange(self, step: str, outgoing: Any, size: int) -> dict[int, memoryview]:
        received = self._link.exchange_all(step, outgoing, size)
        self._step()
        return received

    def _step(self) -> None:
        self._done += 1
        if self._progress:
            self._progress(self._done, self._steps)


def public_keys(link: Link, p: RingParameters, own: RingKey) -> dict[int, PublicKey]:
    """Public samples of all peers, which are checked to hold the same parameters."""
    mine = p.digest + own.seed + to_bytes(own.public.p0, p.primes).tobytes()
    keys = {}
    for peer, raw in link.all_to_all(KEYS, mine).items():
        if bytes(raw[: len(p.digest)]) != p.digest:
            raise MismatchError(
                f"P{peer} has other parameters of the private product than P{link.me}.",
                "the same shape, bits and version at all parties",
                "compare the studies and `pdml-spdz --version`",
                culprit=peer,
            )
        if raw.nbytes != len(mine):
            raise misfit(raw.nbytes, f"{len(mine)} bytes", peer, KEYS)
        seed, rest = bytes(raw[len(p.digest) :][:KEY]), raw[len(p.digest) + KEY :]
        keys[peer] = PublicKey.make(seed, from_bytes(rest, p.N, p.primes, peer), p)
    return keys


def _halves(digits: NDArray[np.uint16], first: int) -> Iterator[tuple[Digits, Digits]]:
    return ((block[:first], block[first:]) for block in digits)


def _check_left(S: NDArray[Any], p: Parameters, M: int) -> None:
    """What this party brings fits the parameters; nothing has been sent yet."""
    layout = p.packing
    if p.M != M:
        raise StudyError(f"parameters for {p.M} parties in a run of {M}.")
    if S.shape[:3] != (layout.count, layout.n, layout.i):
        raise StudyError(f"a left matrix of shape {S.shape}.", f"({layout.count}, {layout.n}, {layout.i})")
    if S.dtype == np.int64 and S.ndim == 3:
        inside = fits(np.ascontiguousarray(S).view(np.uint64).reshape(-1, 1), p.bits)
    elif S.dtype == np.uint64 and S.ndim == 4:
        inside = fits(S.reshape(-1, S.shape[-1]), p.bits)
    else:
        raise StudyError(f"a left matrix of {S.dtype} with {S.ndim} axes.", "int64, or limbs of uint64 in a last axis")
    if not inside:
        raise QuotaError(f"an entry of the left matrix is not below 2^{p.bits} in size.", "the agreed number of bits")


def _check_right(R: NDArray[np.uint64], p: Parameters) -> None:
    wanted = p.packing.count, p.packing.i, p.packing.c, ring.limbs(p.w)
    if R.shape != wanted or R.dtype != np.uint64:
        raise StudyError(f"a right matrix of {R.dtype}, shape {R.shape}.", f"uint64, {wanted}")


def added(terms: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """A sum of arrays with limbs in the last axis."""
    first, *others = terms
    total = first.reshape(-1, first.shape[-1])
    for term in others:
        total = ring.add(total, term.reshape(total.shape))
    return total.reshape(first.shape)


def fits(numbers: ring.Vector, bits: int) -> bool:
    """Whether all are below 2^bits in size, read as signed."""
    if bits >= 64 * numbers.shape[1] - 1:
        return True
    size = np.where(ring.is_negative(numbers)[:, None], ring.neg(numbers), numbers)
    limb, shift = divmod(bits, 64)
    above = size[:, limb] >> np.uint64(shift)
    return not above.any() and not size[:, limb + 1 :].any()
