"""The reorder buffer: segments that arrived early, kept in stream order, within limits.

Each flow has a list of nodes that do not overlap; the bytes are copied to one store. A new node is
looked for from the end, then from the place of the last one, so that the usual orders of arrival
(straight on behind a hole, or backwards) take one step each.

A flow's segments that may be the start of another stream are in a second list, a short one.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowrows import (
    S_ASIDE,
    S_DUPLICATE,
    S_FINGER,
    S_HEAD,
    S_HELD,
    S_NODES,
    S_SUSPECTS,
    S_TAIL,
)
from wireloom.kernel.packets.flowtable import _array, _wider
from wireloom.kernel.primitives import copy_bytes

__all__ = ["ReorderBuffer"]

_NODE_COST = cython.declare(cython.longlong, 64)
"""Cost of a buffered segment beyond its bytes, so that tiny ones cannot fill memory either."""
_STORE = cython.declare(cython.Py_ssize_t, 1048576)
"""Smallest size of the store: each time it is full, a batch of packets ends early."""


@cython.final
@cython.cclass
class ReorderBuffer:
    """The buffered segments of all flows."""

    def __init__(self, reserve: int) -> None:
        self.reserve = reserve
        self.cost = 0
        self.nodes = 1  # node 0 stands for none
        self.free = self.free_count = 0
        self.offset = _array("q", 1)
        self.at = _array("q", 1)
        self.ts = _array("q", 1)
        self.size = _array("i", 1)
        self.cut = _array("i", 1)
        self.bad = _array("B", 1)
        self.next = _array("i", 1)
        self.prev = _array("i", 1)
        self.store = _array("B", _STORE)
        self.store_used = 0
        self.add_nodes(2 * reserve)

    def add_nodes(self, more: int) -> None:
        """Make room for more nodes."""
        node: cython.Py_ssize_t
        count = self.nodes + more
        self.offset = _wider(self.offset, "q", count)
        self.at = _wider(self.at, "q", count)
        self.ts = _wider(self.ts, "q", count)
        self.size = _wider(self.size, "i", count)
        self.cut = _wider(self.cut, "i", count)
        self.bad = _wider(self.bad, "B", count)
        self.next = _wider(self.next, "i", count)
        self.prev = _wider(self.prev, "i", count)
        for node in range(self.nodes, count):
            self.next[node] = cython.cast(cython.int, self.free)
            self.free = node
        self.nodes = count
        self.free_count += more

    def has_room(self, size):
        """Whether a segment of `size` bytes fits, in as many nodes as it may be cut into."""
        return self.free_count > self.reserve and self.store_used + size <= self.store.shape[0]

    def make_room(self, size: cython.Py_ssize_t) -> None:
        """Make room for a segment of `size` bytes; nothing may point into the store."""
        live: cython.Py_ssize_t = 0
        node: cython.Py_ssize_t
        pos: cython.Py_ssize_t
        used: cython.Py_ssize_t = 0
        if self.free_count <= self.reserve:
            self.add_nodes(self.nodes)
        if self.store_used + size <= self.store.shape[0]:
            return
        for node in range(self.nodes):
            live += self.size[node]
        # A third of it stays free, so that the cost of moving everything is amortised.
        new: cython.uchar[::1] = _array("B", max(_STORE, live + live // 2 + size))
        if cython.compiled:
            source = cython.address(self.store[0])
            target = cython.address(new[0])
        else:
            source, target = self.store, new
        for node in range(self.nodes):
            if self.size[node]:
                pos = self.at[node]
                copy_bytes(target, used, source, pos, pos + self.size[node], self.store_used)
                self.at[node] = used
                used += self.size[node]
        self.store = new
        self.store_used = used

    def stash(self, data: bytes) -> int:
        """Put bytes into the store until the next `make_room`; return where they are."""
        at: cython.Py_ssize_t = self.store_used
        size: cython.Py_ssize_t = len(data)
        place: cython.const[cython.uchar][::1] = data
        if cython.compiled:
            copy_bytes(cython.address(self.store[0]), at, cython.address(place[0]), 0, size, size)
        else:
            copy_bytes(self.store, at, data, 0, size, size)
        self.store_used = at + size
        return at

    def hold(self, row, offset, at, size, cut, bad, ts, data, end):
        """Keep the bytes of a segment that are not buffered yet; `cut` more were not captured.

        Bytes at negative offsets are in the store already. `bad`: its checksum is bad.
        """
        before: cython.Py_ssize_t = row[S_TAIL]
        after: cython.Py_ssize_t = 0
        stop: cython.longlong = offset + size
        part: cython.longlong
        if before and self.offset[before] > offset:
            if row[S_FINGER]:
                before = row[S_FINGER]
            while before and self.offset[before] > offset:
                before = self.prev[before]
            if before:
                while self.next[before] and self.offset[self.next[before]] <= offset:
                    before = self.next[before]
        store = cython.address(self.store[0]) if cython.compiled else self.store
        while True:
            if before:
                # The bytes that were captured first stay.
                part = self.offset[before] + self.size[before] - offset
                if part > stop - offset:
                    part = stop - offset
                if part > 0:
                    row[S_DUPLICATE] += part
                    offset += part
                    at = at + part if at >= 0 else at - part
                after = self.next[before]
            else:
                after = row[S_HEAD]
            if offset >= stop:
                return
            part = stop - offset
            if after and self.offset[after] < stop:
                part = self.offset[after] - offset
            if part > 0:
                before = self.insert(row, before, after)
                self.offset[before] = offset
                self.size[before] = cython.cast(cython.int, part)
                self.cut[before] = cython.cast(cython.int, cut if offset + part == stop else 0)
                self.bad[before] = bad
                row[S_SUSPECTS] += bad
                self.ts[before] = ts
                self.at[before] = self.store_used
                if at >= 0:
                    copy_bytes(store, self.store_used, data, at, at + part, end)
                else:
                    copy_bytes(store, self.store_used, store, ~at, ~at + part, self.store_used)
                self.store_used += part
                row[S_HELD] += part + _NODE_COST
                self.cost += part + _NODE_COST
                offset += part
                at = at + part if at >= 0 else at - part
            if offset >= stop:
                return
            before = after

    def set_aside(self, row, seq, at, size, cut, ts, data, end):
        """Keep a segment, whole, behind the others that may be of the next stream."""
        node: cython.Py_ssize_t = self.take()
        before: cython.Py_ssize_t = row[S_ASIDE]
        store = cython.address(self.store[0]) if cython.compiled else self.store
        self.next[node] = 0
        self.offset[node] = seq
        self.size[node] = cython.cast(cython.int, size)
        self.cut[node] = cython.cast(cython.int, cut)
        self.ts[node] = ts
        self.at[node] = self.store_used
        if at >= 0:
            copy_bytes(store, self.store_used, data, at, at + size, end)
        else:
            copy_bytes(store, self.store_used, store, ~at, ~at + size, self.store_used)
        self.store_used += size
        self.cost += size + _NODE_COST
        if before == 0:
            row[S_ASIDE] = node
            return
        while self.next[before]:
            before = self.next[before]
        self.next[before] = cython.cast(cython.int, node)

    def drop_aside(self, row):
        """Take the first of them out of the list."""
        node: cython.Py_ssize_t = row[S_ASIDE]
        row[S_ASIDE] = self.next[node]
        self.give_back(node)

    def take(self):
        """A node that is free."""
        node: cython.Py_ssize_t = self.free
        self.free = self.next[node]
        self.free_count -= 1
        return node

    def give_back(self, node):
        """Let a node be free again; its bytes stay in the store until room is made."""
        self.cost -= self.size[node] + _NODE_COST
        self.size[node] = 0
        self.next[node] = cython.cast(cython.int, self.free)
        self.free = node
        self.free_count += 1

    def insert(self, row, before, after):
        """Link a new node between two."""
        node: cython.Py_ssize_t = self.take()
        self.prev[node] = cython.cast(cython.int, before)
        self.next[node] = cython.cast(cython.int, after)
        if before:
            self.next[before] = cython.cast(cython.int, node)
        else:
            row[S_HEAD] = node
        if after:
            self.prev[after] = cython.cast(cython.int, node)
        else:
            row[S_TAIL] = node
        row[S_FINGER] = node
        row[S_NODES] += 1
        return node

    def pop(self, row):
        """Remove the first node of a flow from its list."""
        self.remove(row, row[S_HEAD])

    def remove(self, row, node):
        """Remove any node of a flow from its list."""
        before: cython.Py_ssize_t = self.prev[node]
        after: cython.Py_ssize_t = self.next[node]
        if before:
            self.next[before] = cython.cast(cython.int, after)
        else:
            row[S_HEAD] = after
        if after:
            self.prev[after] = cython.cast(cython.int, before)
        else:
            row[S_TAIL] = before
        if row[S_FINGER] == node:
            row[S_FINGER] = before
        row[S_SUSPECTS] -= self.bad[node]
        self.bad[node] = 0
        row[S_NODES] -= 1
        row[S_HELD] -= self.size[node] + _NODE_COST
        self.give_back(node)
