"""The interning table: codes are stable while alive, freed by a sweep, and text orders by content."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from vms.model.text import TextPool


def test_equal_text_has_one_code_and_reads_back():
    pool = TextPool()
    codes, valid = pool.intern(pa.array(["b", "a", "b", "", "a"]))
    assert valid is None
    assert codes[0] == codes[2] and codes[1] == codes[4]
    assert len(set(codes.tolist())) == 3 == len(pool)
    assert pool.texts(codes).to_pylist() == ["b", "a", "b", "", "a"]
    assert pool.text(pool.code("a")) == "a" and pool.code("a") == codes[1]


def test_nulls_have_code_zero():
    pool = TextPool()
    pool.code("other")
    codes, valid = pool.intern(pa.array([None, "x", None]))
    assert codes[[0, 2]].tolist() == [0, 0] and valid.tolist() == [False, True, False]
    assert pool.texts(codes, valid).to_pylist() == [None, "x", None]
    codes, valid = pool.intern(pa.array([None, None], pa.string()))
    assert codes.tolist() == [0, 0] and not valid.any()


def test_slices_chunks_and_dictionaries():
    pool = TextPool()
    array = pa.array(["a", None, "c", "d"])[1:]
    for form in (array, pa.chunked_array([array[:1], array[1:]]), array.dictionary_encode()):
        codes, valid = pool.intern(form)
        assert pool.texts(codes, valid).to_pylist() == [None, "c", "d"]
    assert len(pool.intern(pa.array([], pa.string()))[0]) == 0


def test_hashes_follow_the_content_not_the_code():
    one, two = TextPool(), TextPool()
    two.code("something else first")
    assert one.code("text") != two.code("text")
    assert one.hashes[one.code("text")] == two.hashes[two.code("text")]
    assert one.hashes[one.code("text")] != one.hashes[one.code("texts")]


def test_growth_keeps_codes_and_hashes():
    pool = TextPool()
    texts = [f"t{i}" for i in range(5000)]
    codes, _ = pool.intern(pa.array(texts))
    assert pool.texts(codes).to_pylist() == texts
    fresh = TextPool()
    assert pool.hashes[codes[4321]] == fresh.hashes[fresh.code("t4321")]


def test_a_sweep_frees_what_nothing_names_and_hands_it_out_again():
    pool = TextPool()
    codes, _ = pool.intern(pa.array([f"t{i}" for i in range(10)]))
    assert pool.sweep([codes[:3], codes[7:8]]) == 6
    assert len(pool) == 4
    assert pool.texts(codes[:3]).to_pylist() == ["t0", "t1", "t2"]
    assert pool.sweep([codes[:3], codes[7:8]]) == 0, "nothing is freed twice"
    again, _ = pool.intern(pa.array(["n0", "n1", "n2", "n3", "n4", "n5", "t7"]))
    assert set(again[:6].tolist()) == set(codes[3:7].tolist() + codes[8:].tolist())
    assert again[6] == codes[7]
    assert pool.texts(again).to_pylist() == ["n0", "n1", "n2", "n3", "n4", "n5", "t7"]
    fresh = TextPool()
    assert pool.hashes[again[0]] == fresh.hashes[fresh.code("n0")]


def test_memory_follows_what_is_alive():
    pool = TextPool()
    kept, _ = pool.intern(pa.array([f"kept{i}" for i in range(500)]))
    rounds = []
    for turn in range(10):
        pool.intern(pa.array([f"{turn}/{i}" for i in range(6000)]))
        assert pool.wants_sweep()
        pool.sweep([kept])
        assert not pool.wants_sweep()
        rounds.append(pool.memory_bytes())
    assert len(set(rounds)) == 1
    assert pool.texts(kept[:1]).to_pylist() == ["kept0"]


def test_ranks_are_in_utf8_order_not_utf16_and_not_by_code():
    pool = TextPool()
    texts = ["\U00010000", "\uffff", "b", "", "a", "b", "é", "z"]
    codes, _ = pool.intern(pa.array(texts))
    ranks = pool.ranks(codes)
    expected = sorted(set(texts), key=lambda t: t.encode())
    assert [expected[r] for r in ranks] == texts
    assert ranks[2] == ranks[5]
    assert len(pool.ranks(np.empty(0, np.int64))) == 0


def test_text_that_comes_and_goes_costs_half_of_what_lives_at_most():
    """Rows of 1,000 texts replaced again and again; the pool is swept where it asks for it, as between epochs."""
    pool = TextPool()
    pool.slack = 0
    live, _ = pool.intern(pa.array([f"{'x' * 100}{i}" for i in range(1000)]))
    pool.sweep([live])
    start = pool.memory_bytes()
    for turn in range(1, 30):
        fresh, _ = pool.intern(pa.array([f"{'x' * 100}{turn}/{i}" for i in range(100)]))
        live = np.concatenate([live[100:], fresh])
        if pool.wants_sweep():
            pool.sweep([live])
        assert pool.memory_bytes() <= 1.5 * start
    assert pool.texts(live[-2:]).to_pylist() == [f"{'x' * 100}29/98", f"{'x' * 100}29/99"]


def test_a_peak_is_given_back():
    pool = TextPool()
    empty = pool.memory_bytes()
    codes, _ = pool.intern(pa.array([f"t{i}" for i in range(50_000)]))
    pool.sweep([codes[10:12]])
    assert pool.memory_bytes() < 1.1 * empty
    assert pool.texts(codes[10:12]).to_pylist() == ["t10", "t11"]
    assert pool.intern(pa.array(["new"]))[0] == [0], "the lowest code is handed out first"
    pool.sweep([])
    assert len(pool) == 0 and pool.memory_bytes() == empty
