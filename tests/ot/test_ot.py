"""Base OTs, all-but-one OT and OT extension."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot import base_ots, extension, ggm, group, prg
from pdml_spdz.transport.base import Link
from tests.ot.ot_pairs import bytes_are_uniform, ot_ends, ot_pair, words_are_uniform
from tests.threads import run_threads


@pytest.fixture(scope="module")
def ends() -> list[extension.Ends]:
    return ot_ends()


def chosen(pairs: prg.Blocks, choices: np.ndarray) -> prg.Blocks:
    return pairs[np.arange(len(pairs)), choices.astype(int)]


def test_group_leaves_no_library_in_the_temporary_directory() -> None:
    group.random_scalar()
    assert not Path(sys.modules["rbcl._sodium"].lib_path).exists()


def test_group_does_not_load_a_library_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "_sodium.py").write_text("raise SystemExit('the wrong _sodium was loaded')")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pdml_spdz; "
    start += f"pdml_spdz.__path__.insert(0, {str(Path(group.__file__).parent.parent)!r}); "
    start += "from pdml_spdz.ot import group; print(len(group.random_scalar()))"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("32", 0), done.stderr


def test_group_arithmetic_is_consistent() -> None:
    s, t = group.random_scalar(), group.random_scalar()
    p, q = group.base_times(s), group.base_times(t)
    assert group.times(s, q) == group.times(t, p)
    assert group.sub(group.add(p, q), q) == p
    assert group.is_point(p)


@pytest.mark.parametrize("bad", [bytes(32), b"\xff" * 32, bytes(31), b""])
def test_group_refuses_what_is_no_point(bad: bytes) -> None:
    assert not group.is_point(bad)


@pytest.mark.parametrize("M", [2, 3])
def test_base_ots_give_one_key_of_each_pair(M: int) -> None:
    choices = [{l: prg.random_bits(20) for l in range(m + 1, M)} for m in range(M)]
    results = run_threads(M, lambda link: base_ots.base_ots(link, b"s", choices[link.me], 20))
    seen = set()
    for m in range(M):
        for l in choices[m]:
            pairs, message = results[l][0][m]
            keys = results[m][1][l].keys(memoryview(message))
            assert len(message) == base_ots.base_size(20)
            assert np.array_equal(chosen(pairs, choices[m][l]), keys)
            assert not (chosen(pairs, ~choices[m][l]) == keys).all(axis=1).any()
            seen |= {block.tobytes() for block in pairs.reshape(-1, 2)}
    assert len(seen) == M * (M - 1) // 2 * 40  # no key twice, at any pair of parties


def test_a_receiver_of_base_ots_has_one_pad_of_four() -> None:
    """What it was sent under the other three is uniform to it: the pad that it has opens none of them."""
    choices = prg.random_bits(512)
    sender, receiver = base_ots.BaseSender(b"s", 1, 0), base_ots.BaseReceiver(b"s", 0, 1, choices)
    pairs, message = sender.pairs(memoryview(receiver.reply(memoryview(sender.first))), 512)
    opened = np.frombuffer(message, np.uint64).reshape(256, 4, 2, 2) ^ receiver._pads[:, None]
    known = (opened[..., None, :] == pairs.reshape(256, 1, 2, 2, 2)).all(axis=-1).any(axis=-1)  # any key of its pair
    number = choices[0::2] * 2 + choices[1::2]
    assert np.array_equal(known.all(axis=-1), np.arange(4) == number[:, None])
    assert known.sum() == 2 * 256  # both keys under its own pad, none under another
    assert words_are_uniform(opened[~known])


@pytest.mark.parametrize("bit", [False, True])
def test_points_do_not_tell_the_choice(bit: bool) -> None:
    """With the same choice every time the points are as different as with any other."""
    sender = base_ots.BaseSender(b"s", 1, 0)
    reply = base_ots.BaseReceiver(b"s", 0, 1, np.full(64, bit)).reply(memoryview(sender.first))
    points = {reply[i : i + group.SIZE] for i in range(0, len(reply), group.SIZE)}
    assert len(points) == 32
    assert not points & {sender.first, group.ZERO}


def test_base_ots_of_different_sessions_do_not_match() -> None:
    sender, bits = base_ots.BaseSender(b"one", 1, 0), prg.random_bits(4)
    receiver = base_ots.BaseReceiver(b"two", 0, 1, bits)
    pairs, message = sender.pairs(memoryview(receiver.reply(memoryview(sender.first))), 4)
    assert not (chosen(pairs, bits) == receiver.keys(memoryview(message))).any()


def test_base_ot_names_the_party_that_sent_no_point() -> None:
    with pytest.raises(ProtocolError, match="P7 sent 32 bytes that are no group element") as caught:
        base_ots.BaseReceiver(b"s", 1, 7, prg.random_bits(2)).reply(memoryview(b"\xff" * 32))
    assert caught.value.culprit == 7
    with pytest.raises(ProtocolError, match="P1 sent 31 bytes in a base OT"):
        base_ots.BaseSender(b"s", 0, 1).pairs(memoryview(bytes(31)), 2)


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_receiver_of_trees_has_every_leaf_but_one(depth: int) -> None:
    trees, (ours, theirs) = 50, (prg.BlockHash(b"t").forest(50) for _ in range(2))
    pairs, choices = prg.random_blocks(trees * depth, 2), prg.random_bits(trees * depth)
    leaves, message = ggm.send(ours, pairs, depth)
    got = ggm.receive(theirs, chosen(pairs, choices), choices, depth, memoryview(message))
    holes = ggm.holes_of(choices, depth)
    assert np.array_equal(ggm.path_choices(holes, depth), choices)
    missing = np.arange(1 << depth) == holes[:, None]
    assert np.array_equal(got[~missing], leaves[~missing])
    assert not got[missing].any()
    assert (leaves[missing] != 0).any(axis=1).all()


def test_trees_of_another_number_are_refused() -> None:
    forest = prg.BlockHash(b"t").forest(1)
    with pytest.raises(ProtocolError, match="a message of trees has 64 bytes"):
        ggm.receive(forest, prg.random_blocks(4), prg.random_bits(4), 4, memoryview(bytes(64)))


def test_children_and_pads_of_one_seed_differ() -> None:
    hashing, seed = prg.BlockHash(b"t"), prg.random_blocks(1)
    blocks = [*hashing.forest(1).children(seed[None])[0], *hashing.expand(seed, 4)[0], *seed]
    blocks.append(hashing.tweaked(seed, np.array([1], np.uint64))[0])
    assert len({b.tobytes() for b in blocks}) == 2 + 4 + 1 + 1


def test_a_seed_has_other_children_in_every_tree() -> None:
    """What an attacker computes of guessed seeds serves for one tree, not for all of them."""
    hashing, trees = prg.BlockHash(b"t"), 20
    seed = np.broadcast_to(prg.random_blocks(1), (trees, 1, 2))
    blocks: list[bytes] = []
    nonces: list[int] = []
    for forest in (hashing.forest(trees), hashing.forest(trees), prg.BlockHash(b"u").forest(trees)):
        blocks += (b.tobytes() for b in forest.children(seed).reshape(-1, 2))
        nonces += forest.nonces
    assert len(set(blocks)) == len(blocks) == 3 * trees * 2
    assert len(set(nonces)) == len(nonces)
    assert np.array_equal(prg.BlockHash(b"t").forest(trees).children(seed).reshape(-1, 2)[3].tobytes(), blocks[3])


def test_hash_of_a_tree_is_its_cipher_of_seed_and_number() -> None:
    """x = s ^ c ^ the tree's number in its group (in the upper word); E(x) ^ x by the cipher itself."""
    trees, first = 2 * prg.GROUP + 3, prg.GROUP
    labels, leaves = prg.random_blocks(trees), prg.random_blocks(trees, 4)
    made = prg.Forest(labels).expand(leaves[first:], 2, first)
    for tree, leaf, c in ((first, 0, 0), (first + 5, 3, 1), (trees - 1, 2, 1)):
        group, number = divmod(tree, prg.GROUP)
        x = leaves[tree, leaf] ^ np.array([c, number], np.uint64)
        assert np.array_equal(made[tree - first, leaf, c], prg.Permutation(labels[group * prg.GROUP].tobytes())(x) ^ x)
    with pytest.raises(ValueError, match="wanted a multiple of 16"):
        prg.Forest(labels).expand(leaves[3:], 2, 3)


def test_streams_of_two_trees_count_elsewhere() -> None:
    """Equal keys in two trees: their streams have no block in common."""
    key, blocks = prg.random_blocks(1), set()
    for nonce in (0, 1, 2**64 - 1):
        out = np.empty(64, np.uint64)
        prg.Streams(key, None, 0, nonce).fill(0, out)
        blocks |= {b.tobytes() for b in out.reshape(-1, 2)}
    assert len(blocks) == 3 * 32


def test_transpose_matches_a_transposed_bit_matrix() -> None:
    rows = prg.random_blocks(128, 5).reshape(128, 10)
    bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")
    expected = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
    assert np.array_equal(extension.transpose(rows).view(np.uint8), expected)


@pytest.mark.parametrize("n", [1, 127, 128, 129, 3000])
def test_extension_gives_one_key_of_each_pair(ends: list[extension.Ends], n: int) -> None:
    sender, receiver = ot_pair(ends)
    choices = prg.random_bits(n)
    keys, message = receiver.extend(choices)
    pairs = sender.extend(n, memoryview(message))
    assert pairs.shape == (n, 2, 2)
    assert np.array_equal(chosen(pairs, choices), keys)
    assert not (chosen(pairs, ~choices) == keys).all(axis=1).any()
    assert len(message) == 4 * (-(-n // 128) * 128)
    assert sender.position == receiver.position


def test_extension_never_gives_a_key_twice(ends: list[extension.Ends]) -> None:
    sender, receiver = ot_pair(ends)
    seen = []
    for n in (100, 128, 300):  # the same choices each time
        _, message = receiver.extend(np.zeros(n, np.bool_))
        seen += [block.tobytes() for block in sender.extend(n, memoryview(message)).reshape(-1, 2)]
    assert len(set(seen)) == len(seen)


def test_extension_runs_both_ways_between_three_parties() -> None:
    n, M = 200, 3

    def party(link: Link) -> tuple[extension.OTs, int]:
        mine = extension.set_up(link, b"three")
        return extension.extend(link, mine, n), link.traffic.rounds

    results = run_threads(M, party)
    assert {rounds for _, rounds in results} == {4 + 1}
    for m, (ots, _) in enumerate(results):
        for l in ots.keys:
            assert np.array_equal(chosen(results[l][0].pairs[m], ots.choices), ots.keys[l])


def test_ots_that_were_prepared_are_taken_once(ends: list[extension.Ends]) -> None:
    def party(link: Link) -> tuple[list[extension.OTs], int]:
        mine = ends[link.me]
        extension.prepare(link, mine, 50)
        made = [extension.extend(link, mine, n) for n in (30, 20)]
        rounds = link.traffic.rounds
        return [*made, extension.extend(link, mine, 10)], rounds

    ours, theirs = run_threads(2, party)
    assert ours[1] == theirs[1] == 1
    pairs = [block.tobytes() for ots in ours[0] for block in ots.pairs[1].reshape(-1, 2)]
    assert len(set(pairs)) == 2 * (30 + 20 + 10)
    for mine, other in zip(ours[0], theirs[0], strict=True):
        assert np.array_equal(chosen(mine.pairs[1], other.choices), other.keys[0])


def test_the_first_ots_have_nothing_in_common_with_the_streams() -> None:
    """Those that the second direction begins with: one key of each pair, and no key that comes again."""
    hashing, sources = prg.BlockHash(b"t"), [prg.BlockHash(b"t") for _ in range(2)]
    pairs, offset = prg.random_blocks(extension.SECURITY, 2), prg.random_bits(extension.SECURITY)
    trees, depth = extension.TREES, extension.DEPTH
    ours, theirs = (source.forest(trees) for source in sources)
    leaves, message = ggm.send(ours, pairs, depth)
    reached = ggm.receive(theirs, chosen(pairs, offset), offset, depth, memoryview(message))
    receiver = extension.Receiver(hashing, leaves, ours)
    sender = extension.Sender(hashing, reached, theirs, ggm.holes_of(offset, depth))
    choices = prg.random_bits(extension.FIRST)
    keys, corrections = receiver.begin(ours, choices)
    made = sender.begin(theirs, memoryview(corrections))
    assert np.array_equal(chosen(made, choices), keys)
    assert not (chosen(made, ~choices) == keys).all(axis=1).any()
    _, more = receiver.extend(choices)
    again = sender.extend(extension.FIRST, memoryview(more))
    assert len({block.tobytes() for block in np.concatenate([made, again]).reshape(-1, 2)}) == 4 * extension.FIRST
    assert not (np.frombuffer(corrections, np.uint64) == np.frombuffer(more, np.uint64)).any()


def test_messages_and_keys_look_uniform(ends: list[extension.Ends]) -> None:
    sender, receiver = ot_pair(ends)
    keys, message = receiver.extend(np.ones(20_000, np.bool_))  # constant choices: only the masks are random
    pairs = sender.extend(20_000, memoryview(message))
    assert bytes_are_uniform(message)
    assert bytes_are_uniform(pairs)
    assert words_are_uniform(keys)
    differences = pairs[:, 0] ^ pairs[:, 1]
    assert len(np.unique(differences, axis=0)) == 20_000  # before the hash this was one constant, the offset


def test_a_changed_bit_of_the_message_spoils_its_own_ot_only(ends: list[extension.Ends]) -> None:
    sender, receiver = ot_pair(ends)
    changed = copy.copy(sender)
    changed.__dict__.pop("_streams", None)  # which it begins where the other one is
    keys, message = receiver.extend(choices := prg.random_bits(256))
    tree = int(np.flatnonzero(sender._holes)[0])  # a digit 0 of the offset ignores its correction
    spoilt = bytearray(message)
    spoilt[tree * 32 + 2] ^= 1 << 3
    wrong = (chosen(changed.extend(256, memoryview(spoilt)), choices) != keys).any(axis=1)
    assert np.flatnonzero(wrong).tolist() == [8 * 2 + 3]
    assert np.array_equal(chosen(sender.extend(256, memoryview(message)), choices), keys)


def test_extension_refuses_a_message_of_another_length(ends: list[extension.Ends]) -> None:
    sender = ot_pair(ends)[0]
    with pytest.raises(ProtocolError, match="an OT message has 511 bytes"):
        copy.copy(sender).extend(5, memoryview(bytes(511)))
