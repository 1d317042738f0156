"""The compiled kernel, as mypy sees it. Made by ``python -m wireloom.kernel.stub``; do not edit."""

from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview
"""What a typed memoryview of C takes."""

class Names:
    @property
    def count(self) -> int: ...
    @property
    def used(self) -> int: ...
    def __init__(
        self,
        slots: int = ...,
        text: int = ...,
    ) -> None: ...
    def _resize(
        self,
        slots: int,
    ) -> None: ...
    def grow(
        self,
    ) -> None: ...
    def add(
        self,
        text: bytes,
    ) -> int: ...
    def texts(
        self,
        first: int = ...,
    ) -> Any: ...

_Names = Names

class Wide:
    high: int
    low: int
    places: int
    has_overflowed: bool
    def __init__(
        self,
    ) -> None: ...

_Wide = Wide

class Dates:
    def __init__(
        self,
    ) -> None: ...
    def clear(
        self,
    ) -> None: ...
    def asked(
        self,
    ) -> Any: ...
    def answer(
        self,
        days: int,
    ) -> None: ...
    def is_full(
        self,
    ) -> bool: ...

_Dates = Dates

class KeyRows:
    @property
    def want(self) -> int: ...
    @property
    def buffers(self) -> dict[Any, Any]: ...
    @property
    def path_filled(self) -> int: ...
    @property
    def stream_filled(self) -> int: ...
    def __init__(
        self,
        want: int,
    ) -> None: ...
    def reset(
        self,
        rows: int,
        allocate: Any,
    ) -> None: ...

_KeyRows = KeyRows

class FieldRows:
    @property
    def capacity(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def text_capacity(self) -> int: ...
    @property
    def text_used(self) -> int: ...
    @property
    def binary_capacity(self) -> int: ...
    @property
    def binary_used(self) -> int: ...
    @property
    def want(self) -> int: ...
    @property
    def dense(self) -> int: ...
    @property
    def seen(self) -> int: ...
    @property
    def keeps(self) -> bool: ...
    @property
    def keys(self) -> KeyRows: ...
    @property
    def buffers(self) -> dict[Any, Any]: ...
    def __init__(
        self,
        want: int,
        dense: int,
        key_want: int,
        rows: int,
        text: int,
        allocate: Any = ...,
        keeps: bool = ...,
    ) -> None: ...
    def reset(
        self,
    ) -> None: ...
    def let_go(
        self,
    ) -> None: ...
    def _make(
        self,
        rows: int,
        text: int,
        binary: int,
    ) -> None: ...
    def _column(
        self,
        name: str,
        code: str,
        rows: int,
        is_wanted: int,
    ) -> Any: ...
    def grow_rows(
        self,
    ) -> None: ...
    def grow_text(
        self,
        size: int,
    ) -> None: ...
    def add(
        self,
        position: int,
        code: int,
        size: int,
        name: int,
        path: int,
        values: Any,
    ) -> None: ...
    def has_room(
        self,
        size: int,
    ) -> bool: ...
    def _add_bytes(
        self,
        is_text: bool,
        value: bytes,
    ) -> None: ...
    def finish(
        self,
    ) -> None: ...

_FieldRows = FieldRows

class MessageRows:
    @property
    def want(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def keys(self) -> KeyRows: ...
    @property
    def buffers(self) -> dict[Any, Any]: ...
    def __init__(
        self,
        want: int,
        key_want: int,
        rows: int,
        allocate: Any = ...,
    ) -> None: ...
    def reset(
        self,
    ) -> None: ...
    def let_go(
        self,
    ) -> None: ...
    def _make(
        self,
        rows: int,
    ) -> None: ...
    def grow_rows(
        self,
    ) -> None: ...
    def add(
        self,
        format: int,
        dialect: int,
        path: int,
        fields: int,
        depth: int,
    ) -> None: ...
    def finish(
        self,
    ) -> None: ...

_MessageRows = MessageRows

class WideRows:
    @property
    def capacity(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def text_capacity(self) -> int: ...
    @property
    def text_used(self) -> int: ...
    @property
    def row_words(self) -> int: ...
    @property
    def keys(self) -> KeyRows: ...
    @property
    def buffers(self) -> dict[Any, Any]: ...
    def __init__(
        self,
        kinds: Any,
        precisions: Any,
        scales: Any,
        key_want: int,
        rows: int,
        text: int,
        dates: Dates,
        allocate: Any = ...,
    ) -> None: ...
    def reset(
        self,
    ) -> None: ...
    def let_go(
        self,
    ) -> None: ...
    def _make(
        self,
        rows: int,
        text: int,
    ) -> None: ...
    def grow_rows(
        self,
    ) -> None: ...
    def grow_text(
        self,
        size: int,
    ) -> None: ...
    def add(
        self,
        path: int,
        misfits: int,
        cells: Any,
    ) -> None: ...
    def finish(
        self,
    ) -> None: ...

_WideRows = WideRows

class Walk:
    @property
    def rows(self) -> FieldRows: ...
    @property
    def messages(self) -> MessageRows: ...
    @property
    def wide(self) -> WideRows: ...
    @property
    def dates(self) -> Dates: ...
    @property
    def names(self) -> Names: ...
    @property
    def paths(self) -> Names: ...
    @property
    def has_messages(self) -> bool: ...
    @property
    def has_wide(self) -> bool: ...
    @property
    def is_nested(self) -> bool: ...
    @property
    def has_dictionary(self) -> bool: ...
    @property
    def is_asking(self) -> bool: ...
    @property
    def need(self) -> int: ...
    @property
    def need_bytes(self) -> int: ...
    stream: int
    def __init__(
        self,
        rows: FieldRows,
        messages: MessageRows,
        wide: WideRows,
        dates: Dates,
        types: bytes,
    ) -> None: ...
    def grow_names(
        self,
    ) -> None: ...
    def forget_names(
        self,
        first: Any,
    ) -> None: ...
    def set_base(
        self,
        path: bytes,
    ) -> None: ...
    def begin_slow(
        self,
    ) -> None: ...
    def end_slow(
        self,
        offset: int,
        length: int,
        ts_ns: int,
    ) -> None: ...

_Walk = Walk

class Flows:
    @property
    def limit(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def is_router(self) -> bool: ...
    @property
    def tunnels(self) -> int: ...
    @property
    def names(self) -> Names: ...
    def __init__(
        self,
        limit: int,
        part: int = ...,
        parts: int = ...,
        slots: int = ...,
        is_router: bool = ...,
        tunnels: int = ...,
    ) -> None: ...
    def count(
        self,
    ) -> int: ...
    def key_of(
        self,
        flow: int,
    ) -> bytes: ...
    def grow(
        self,
    ) -> bool: ...
    def add(
        self,
        key: bytes,
    ) -> int: ...

_Flows = Flows

class Packets:
    @property
    def capacity(self) -> int: ...
    @property
    def odd_count(self) -> int: ...
    count: int
    skipped: int
    @property
    def stop(self) -> int: ...
    @property
    def at(self) -> memoryview: ...
    @property
    def ts(self) -> memoryview: ...
    @property
    def net_at(self) -> memoryview: ...
    @property
    def host_at(self) -> memoryview: ...
    @property
    def payload_at(self) -> memoryview: ...
    @property
    def tally(self) -> memoryview: ...
    @property
    def sizes(self) -> memoryview: ...
    @property
    def captured(self) -> memoryview: ...
    @property
    def length(self) -> memoryview: ...
    @property
    def link(self) -> memoryview: ...
    @property
    def flow(self) -> memoryview: ...
    @property
    def payload(self) -> memoryview: ...
    @property
    def missing(self) -> memoryview: ...
    @property
    def odd(self) -> memoryview: ...
    @property
    def seq(self) -> memoryview: ...
    @property
    def status(self) -> memoryview: ...
    @property
    def flags(self) -> memoryview: ...
    def __init__(
        self,
        rows: int,
    ) -> None: ...
    def clear(
        self,
    ) -> None: ...
    def put(
        self,
        at: int,
        captured: int,
        link: int,
    ) -> None: ...
    def take(
        self,
        index: int,
        other: Packets,
    ) -> None: ...

_Packets = Packets

class Interfaces:
    @property
    def count(self) -> int: ...
    @property
    def link(self) -> memoryview: ...
    @property
    def shift(self) -> memoryview: ...
    def __init__(
        self,
    ) -> None: ...
    def clear(
        self,
    ) -> None: ...
    def add(
        self,
        link: int,
        snap: int,
        resolution: int,
        offset: int,
    ) -> None: ...

_Interfaces = Interfaces

class FlowRows:
    @property
    def capacity(self) -> int: ...
    @property
    def age(self) -> int: ...
    def __init__(
        self,
    ) -> None: ...
    def widen(
        self,
        flows: int,
    ) -> None: ...
    def holders(
        self,
    ) -> Any: ...
    def by_silence(
        self,
        flows: int,
    ) -> Any: ...
    def age_of(
        self,
        flow: int,
    ) -> int: ...
    def keep(
        self,
        flows: Any,
    ) -> None: ...

_FlowRows = FlowRows

class ReorderBuffer:
    @property
    def store_used(self) -> int: ...
    @property
    def cost(self) -> int: ...
    @property
    def store(self) -> memoryview: ...
    def __init__(
        self,
        reserve: int,
    ) -> None: ...
    def add_nodes(
        self,
        more: int,
    ) -> None: ...
    def make_room(
        self,
        size: int,
    ) -> None: ...
    def stash(
        self,
        data: bytes,
    ) -> int: ...

_ReorderBuffer = ReorderBuffer

class StreamEvents:
    @property
    def capacity(self) -> int: ...
    @property
    def run_count(self) -> int: ...
    count: int
    end_count: int
    @property
    def counts(self) -> memoryview: ...
    @property
    def run_stream(self) -> memoryview: ...
    @property
    def run_offset(self) -> memoryview: ...
    @property
    def run_length(self) -> memoryview: ...
    @property
    def run_at(self) -> memoryview: ...
    @property
    def run_ts(self) -> memoryview: ...
    @property
    def run_other(self) -> memoryview: ...
    @property
    def run_flow(self) -> memoryview: ...
    @property
    def run_mark(self) -> memoryview: ...
    @property
    def run_kind(self) -> memoryview: ...
    @property
    def out(self) -> memoryview: ...
    @property
    def mark_offset(self) -> memoryview: ...
    @property
    def mark_ts(self) -> memoryview: ...
    def __init__(
        self,
        capacity: int,
        flows: int,
    ) -> None: ...
    def widen(
        self,
        flows: int,
    ) -> None: ...
    def gather(
        self,
        data: Buffer,
        store: Buffer,
    ) -> None: ...

_StreamEvents = StreamEvents

class Streams:
    @property
    def pieces(self) -> StreamEvents: ...
    @property
    def seen(self) -> int: ...
    @property
    def streams(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def flows(self) -> FlowRows: ...
    @property
    def held(self) -> ReorderBuffer: ...
    def __init__(
        self,
        pieces: StreamEvents,
        max_flow_packets: int,
        max_flow_bytes: int,
        max_bytes: int,
        max_wait_ns: int,
        max_ahead: int,
        max_behind: int,
    ) -> None: ...
    def use(
        self,
        pieces: StreamEvents,
    ) -> None: ...
    def make_room(
        self,
        flows: int,
        size: int,
    ) -> None: ...
    def is_full(
        self,
    ) -> bool: ...
    def keep(
        self,
        flows: Any,
    ) -> None: ...
    def run(
        self,
        rows: Packets,
        data: Buffer,
        first: int,
        last: int,
    ) -> int: ...
    def give_up(
        self,
        flow: int,
    ) -> None: ...
    def finish(
        self,
        flow: int,
        why: int,
    ) -> None: ...
    def leave_unread(
        self,
        flow: int,
    ) -> None: ...

_Streams = Streams

class FrameCheck:
    def __init__(
        self,
        table: Any,
        layouts: int,
    ) -> None: ...

_FrameCheck = FrameCheck

class HeaderRules:
    @property
    def format(self) -> int: ...
    @property
    def max_frame(self) -> int: ...
    def __init__(
        self,
        format: int,
        table: Any,
        options: int,
        max_frame: int,
        has_magic: bool,
    ) -> None: ...

_HeaderRules = HeaderRules

class Frames:
    @property
    def capacity(self) -> int: ...
    @property
    def mark_capacity(self) -> int: ...
    count: int
    mark_count: int
    @property
    def offsets(self) -> memoryview: ...
    @property
    def mark_offsets(self) -> memoryview: ...
    @property
    def mark_lengths(self) -> memoryview: ...
    @property
    def mark_reach(self) -> memoryview: ...
    @property
    def lengths(self) -> memoryview: ...
    @property
    def mark_kinds(self) -> memoryview: ...
    def __init__(
        self,
        capacity: int,
        marks: int = ...,
    ) -> None: ...
    def reset(
        self,
    ) -> None: ...
    def clear(
        self,
    ) -> None: ...

_Frames = Frames

class Scan:
    @property
    def rules(self) -> HeaderRules: ...
    limit: int
    @property
    def pos(self) -> int: ...
    @property
    def need(self) -> int: ...
    @property
    def suspect(self) -> int: ...
    @property
    def bad(self) -> int: ...
    def __init__(
        self,
        rules: HeaderRules,
    ) -> None: ...
    def start(
        self,
        pos: int,
    ) -> None: ...
    def drop(
        self,
        count: int,
    ) -> None: ...
    def run(
        self,
        out: Frames,
        data: Buffer,
        is_last: bool,
    ) -> int: ...
    def stands_at(
        self,
        data: Buffer,
        pos: int,
        count: int,
    ) -> bool: ...
    def find_from(
        self,
        data: Buffer,
        pos: int,
        end: int,
    ) -> int: ...

_Scan = Scan

class NaisScan:
    limit: int
    @property
    def pos(self) -> int: ...
    @property
    def need(self) -> int: ...
    @property
    def junk_end(self) -> int: ...
    def __init__(
        self,
        max_payload: int,
        max_len_bytes: int,
        strict_rsv: bool,
        max_frame: int,
        max_text: int,
    ) -> None: ...
    def start(
        self,
        pos: int,
    ) -> None: ...
    def drop(
        self,
        count: int,
    ) -> None: ...
    def run(
        self,
        out: Frames,
        data: Buffer,
        is_last: bool,
    ) -> int: ...
    def stands_at(
        self,
        data: Buffer,
        pos: int,
        count: int,
    ) -> bool: ...
    def find_from(
        self,
        data: Buffer,
        pos: int,
        end: int,
    ) -> int: ...

_NaisScan = NaisScan

class Triage:
    def __init__(
        self,
        scans: list[Any],
    ) -> None: ...
    def stream(
        self,
        data: Buffer,
    ) -> int: ...
    def datagrams(
        self,
        data: Buffer,
        bounds: Buffer,
    ) -> int: ...

_Triage = Triage

class WordProgram:
    def __init__(
        self,
        selector: Any,
        forms: Any,
        ops: Any,
        firsts: Any,
        maps: Any,
        lists: Any,
    ) -> None: ...

_WordProgram = WordProgram

class WordRows:
    @property
    def program(self) -> WordProgram: ...
    @property
    def capacity(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def form(self) -> memoryview: ...
    @property
    def counts(self) -> memoryview: ...
    def __init__(
        self,
        program: WordProgram,
        capacity: int,
    ) -> None: ...
    def classify(
        self,
        data: Buffer,
        offsets: Buffer,
        lengths: Buffer,
    ) -> None: ...
    def merge_bits(
        self,
        forms: Buffer,
        out: Buffer,
    ) -> None: ...
    def run(
        self,
        data: Buffer,
        offsets: Buffer,
        lengths: Buffer,
        slots: Buffer,
        ints32: Buffer,
        ints64: Buffer,
        blob_starts: Buffer,
        blob_sizes: Buffer,
        outcome: Buffer,
    ) -> None: ...

_WordRows = WordRows

class BodyRows:
    @property
    def capacity(self) -> int: ...
    @property
    def text_capacity(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def text_used(self) -> int: ...
    @property
    def binary_used(self) -> int: ...
    @property
    def note_count(self) -> int: ...
    @property
    def seen(self) -> int: ...
    @property
    def path_count(self) -> int: ...
    allocate: Any
    @property
    def buffers(self) -> dict[Any, Any]: ...
    @property
    def frame(self) -> memoryview: ...
    @property
    def path(self) -> memoryview: ...
    @property
    def position(self) -> memoryview: ...
    @property
    def name(self) -> memoryview: ...
    @property
    def size(self) -> memoryview: ...
    @property
    def text_ends(self) -> memoryview: ...
    @property
    def binary_ends(self) -> memoryview: ...
    @property
    def note_frame(self) -> memoryview: ...
    @property
    def note_path(self) -> memoryview: ...
    @property
    def note_name(self) -> memoryview: ...
    @property
    def note_size(self) -> memoryview: ...
    @property
    def note_at(self) -> memoryview: ...
    @property
    def mask(self) -> memoryview: ...
    @property
    def text(self) -> memoryview: ...
    @property
    def binary(self) -> memoryview: ...
    @property
    def value_int(self) -> memoryview: ...
    @property
    def value_real(self) -> memoryview: ...
    @property
    def path_parents(self) -> memoryview: ...
    @property
    def path_steps(self) -> memoryview: ...
    def __init__(
        self,
        rows: int,
        text: int,
        allocate: Any = ...,
        paths: int = ...,
    ) -> None: ...
    def reset(
        self,
    ) -> None: ...
    def _column(
        self,
        name: str,
        code: str,
        rows: int,
    ) -> Any: ...
    def grow(
        self,
    ) -> None: ...
    def drop_note(
        self,
        frame: int,
    ) -> None: ...
    def forget_paths(
        self,
        slots: int,
    ) -> None: ...

_BodyRows = BodyRows

class Subscriptions:
    @property
    def request_count(self) -> int: ...
    @property
    def active_count(self) -> int: ...
    def is_full(self) -> bool: ...
    def request(self, number: int, clsenc: int) -> None: ...
    def activate(self, number: int, clsenc: int) -> None: ...
    def __init__(
        self,
    ) -> None: ...
    def copy(
        self,
    ) -> Subscriptions: ...
    def grow(
        self,
    ) -> None: ...
    def class_of(
        self,
        number: int,
    ) -> int: ...

_Subscriptions = Subscriptions

class Bodies:
    def __init__(
        self,
        roles: Any,
        classes: Any,
        starts: Any,
        slots: Any,
        members: Any,
        member_ends: Any,
        member_text: Any,
        encodings: int,
        first_index: int,
        max_fields: int,
        max_depth: int,
        asks: bool,
    ) -> None: ...
    def run(
        self,
        rows: BodyRows,
        words: Buffer,
        data: Buffer,
        offsets: Buffer,
        lengths: Buffer,
        first: int,
        outcome: Buffer,
    ) -> int: ...
    def find(
        self,
        subscriptions: Subscriptions,
        data: Buffer,
        offsets: Buffer,
        lengths: Buffer,
        first: int,
        outcome: Buffer,
        out: Buffer,
    ) -> int: ...
    def lessons(
        self,
        data: Buffer,
        offsets: Buffer,
        lengths: Buffer,
        out: Buffer,
    ) -> int: ...

_Bodies = Bodies

class BodyTexts:
    def __init__(
        self,
        keys: bytes,
        key_ends: Any,
        hex_keys: bytes,
        hex_key_ends: Any,
        bool_type: int,
    ) -> None: ...
    def write(
        self,
        rows: BodyRows,
        first: int,
        last: int,
        outcome: Buffer,
        reals: Buffer,
        real_ends: Buffer,
        out: Buffer,
        ends: Buffer,
        valid: Buffer,
    ) -> int: ...

_BodyTexts = BodyTexts

class FlatClass:
    def __init__(
        self,
        names: tuple[Any, ...],
        kinds: Any,
        sizes: Any,
        reads: tuple[Any, ...],
        packs: tuple[Any, ...],
        first: int,
    ) -> None: ...
    def read(
        self,
        body: bytes,
        has_zeros: bool,
    ) -> Any: ...
    def write(
        self,
        items: dict[Any, Any],
    ) -> Any: ...

_FlatClass = FlatClass

class Kernel(Protocol):
    """What `wireloom.kernel.load` gives."""

    Names: type[_Names]
    Wide: type[_Wide]
    Dates: type[_Dates]
    KeyRows: type[_KeyRows]
    @staticmethod
    def pack_bits(
        masks: Buffer,
        count: int,
        out: Buffer,
    ) -> None: ...
    FieldRows: type[_FieldRows]
    MessageRows: type[_MessageRows]
    WideRows: type[_WideRows]
    @staticmethod
    def pack_flags(
        flags: Buffer,
        at: int,
        count: int,
        out: Buffer,
    ) -> None: ...
    @staticmethod
    def pack_words(
        words: Buffer,
        at: int,
        count: int,
        out: Buffer,
    ) -> None: ...
    @staticmethod
    def wide_narrow(
        words: Buffer,
        at: int,
        count: int,
        out: Buffer,
    ) -> None: ...
    @staticmethod
    def wide_ends(
        words: Buffer,
        at: int,
        count: int,
        out: Buffer,
    ) -> int: ...
    @staticmethod
    def wide_text(
        words: Buffer,
        at: int,
        count: int,
        text: Buffer,
        out: Buffer,
    ) -> None: ...
    Walk: type[_Walk]
    @staticmethod
    def message_rows(
        walk: _Walk,
        format: int,
        data: Buffer,
        starts: Buffer,
        lengths: Buffer,
        offsets: Buffer,
        times: Buffer,
        base: int,
        first: int,
        last: int,
        framed: Buffer,
    ) -> Any: ...
    @staticmethod
    def recognised_payloads(
        data: Buffer,
        starts: Buffer,
        sizes: Buffer,
        first: int,
        frames: Buffer,
        places: Buffer,
        lengths: Buffer,
    ) -> int: ...
    Flows: type[_Flows]
    Packets: type[_Packets]
    @staticmethod
    def scan_packets(
        rows: _Packets,
        flows: _Flows,
        data: Buffer,
        first: int,
        last: int,
    ) -> int: ...
    @staticmethod
    def pcap_records(
        rows: _Packets,
        data: Buffer,
        pos: int,
        is_end: bool,
        is_big: bool,
        ticks: int,
        link: int,
        is_strict: bool,
        until: int,
    ) -> int: ...
    @staticmethod
    def find_record(
        rows: _Packets,
        data: Buffer,
        pos: int,
        until: int,
        beyond: int,
        is_end: bool,
        is_big: bool,
        near: int = ...,
    ) -> int: ...
    Interfaces: type[_Interfaces]
    @staticmethod
    def pcapng_records(
        rows: _Packets,
        interfaces: _Interfaces,
        data: Buffer,
        pos: int,
        is_end: bool,
        is_big: bool,
        until: int,
    ) -> int: ...
    @staticmethod
    def find_block(
        rows: _Packets,
        data: Buffer,
        pos: int,
        is_end: bool,
        is_big: bool,
    ) -> int: ...
    FlowRows: type[_FlowRows]
    ReorderBuffer: type[_ReorderBuffer]
    StreamEvents: type[_StreamEvents]
    Streams: type[_Streams]
    FrameCheck: type[_FrameCheck]
    HeaderRules: type[_HeaderRules]
    Frames: type[_Frames]
    Scan: type[_Scan]
    NaisScan: type[_NaisScan]
    Triage: type[_Triage]
    WordProgram: type[_WordProgram]
    WordRows: type[_WordRows]
    @staticmethod
    def measure_blobs(
        sizes: Buffer,
        outcome: Buffer,
    ) -> int: ...
    @staticmethod
    def take_blobs(
        data: Buffer,
        starts: Buffer,
        sizes: Buffer,
        outcome: Buffer,
        unit: int,
        is_hex: bool,
        offsets: Buffer,
        out: Buffer,
        valid: Buffer,
    ) -> int: ...
    @staticmethod
    def to_micros(
        nanos: Buffer,
        out: Buffer,
    ) -> None: ...
    @staticmethod
    def times_at(
        marks: Buffer,
        times: Buffer,
        offsets: Buffer,
        base: int,
        out: Buffer,
    ) -> int: ...
    BodyRows: type[_BodyRows]
    @staticmethod
    def mask_bits(
        masks: Buffer,
        bits: int,
        out: Buffer,
    ) -> int: ...
    @staticmethod
    def take32(
        places: Buffer,
        values: Buffer,
        out: Buffer,
    ) -> None: ...
    @staticmethod
    def take64(
        places: Buffer,
        values: Buffer,
        add: int,
        out: Buffer,
    ) -> None: ...
    Subscriptions: type[_Subscriptions]
    Bodies: type[_Bodies]
    BodyTexts: type[_BodyTexts]
    @staticmethod
    def cut_runs(
        data: bytes,
        pos: int,
        max_size: int,
        lengths: bytes,
        counters: bytes,
    ) -> tuple[Any, ...]: ...
    @staticmethod
    def join_packets(
        columns: tuple[Any, ...],
        count: int,
    ) -> bytes: ...
    FlatClass: type[_FlatClass]
