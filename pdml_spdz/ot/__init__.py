"""Correlated randomness for M parties from oblivious transfer: no dealer, semi-honest, up to M-1 colluding.

    group      ristretto255, from libsodium
    prg        AES streams, AES hash, domain separation
    ggm        all-but-one OT: puncturable trees, and the arithmetic on streams of their leaves
    base_ots   random OTs from Diffie-Hellman
    extension  from 128 of them as many as wanted
    triples    Beaver triples of wide scalars
    vole       w = u*delta + v over Z_2^k
    lpn        the code under which many numbers follow from few
    silent     VOLE by that code

Every protocol has two halves: classes that turn messages into messages and know no network, and one function that
runs them with all peers in parallel over a `Link`. What a session's ends agree on beforehand is one byte string,
`session`, equal at all parties and never used twice (the handshake's hash, for instance).
"""
