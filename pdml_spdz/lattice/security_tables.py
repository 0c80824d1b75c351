"""How long a modulus may be: the largest log2 q for 128 bits of classical security, by ring dimension N.

Secrets uniform in {-1, 0, 1}, errors Gaussian with deviation 8/sqrt(2 pi) = 3.19, any number of samples. Two published
tables; the smaller entry counts.

*Ref:* Albrecht, Chase, Chen, Ding, Goldwasser, Gorbunov, Halevi, Hoffstein, Laine, Lauter, Lokam, Micciancio, Moody,
Morrison, Sahai, Vaikuntanathan, "Homomorphic Encryption Standard", HomomorphicEncryption.org, November 2018, table 1
(distribution (-1, 1), 128 bits, classical). Bossuat, Cammarota, Cheon, Chillotti, Curtis, Dai, Gong, Hales, Kim,
Kumara, Lee, Lu, Maple, Pedrouzo-Ulloa, Player, Ruiz Lopez, Song, Yhee, Yildiz, "Security guidelines for implementing
homomorphic encryption", IACR Communications in Cryptology 1(4), 2024 (ePrint 2024/463), table 5.2 (ternary, 128 bits,
classical); the entries from 4096 to 32768 agree with those that the authors' script (gong-cr/FHE-Security-Guidelines)
has made for HomomorphicEncryption/SparseLWEkit, where they were looked up.
"""

from __future__ import annotations

STANDARD = {4096: 109, 8192: 218, 16384: 438, 32768: 881}  # 2018
GUIDELINES = {4096: 106, 8192: 214, 16384: 430, 32768: 868}  # 2024
SECURITY = 128
SOURCE = "Homomorphic Encryption Standard (2018), table 1, and Security Guidelines (2024), table 5.2: the smaller"


def longest_modulus(N: int) -> int:
    """Bits that q may have at ring dimension N; 0 where the tables have no entry."""
    return min(STANDARD.get(N, 0), GUIDELINES.get(N, 0))
