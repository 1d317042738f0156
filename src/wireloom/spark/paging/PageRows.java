// The body of a class that Spark compiles wherever it reads pages; see pages.py for what is in them.

public Object generate(Object[] references) {
    return new PageRows(
        (int[]) references[0], (org.apache.spark.sql.execution.metric.SQLMetric) references[1]);
}

/**
 * Turns pages into rows, a block at a time. The rows of a block are filled column by column, in one
 * loop per column, as all values of a column are of one kind.
 */
final class PageRows extends org.apache.spark.sql.execution.BufferedRowIterator {
    // What a column is, as Paging.java says.
    private static final int BIT = 0;
    private static final int INT = 1;
    private static final int LONG = 2;
    private static final int BYTES = 3;
    private static final int DECIMAL = 4;
    private static final int SHORT_DECIMAL = 5;
    private static final int LIST = 6;

    // How it is in a page, as pages.py says.
    private static final int HAS_VALUES = 1;
    private static final int HAS_NULLS = 2;
    private static final int IS_CODED = 4;
    private static final int IS_SHORT = 8;
    private static final int HEAD = 8;
    private static final int COLUMN_HEAD = 24;
    private static final int SPARE = 8;

    private static final int BLOCK = 512;

    private final int[] kinds;
    private final org.apache.spark.sql.execution.metric.SQLMetric total;
    private final int nullBytes;
    private final int fixedBytes;
    private final UnsafeRow row;
    private final long[] nulls;
    private scala.collection.Iterator input;

    private byte[] page;
    private long base;
    private long end;
    private int rows;
    private int first;

    private int count;
    private int given;
    private final int[] starts = new int[BLOCK + 1];
    private final int[] ends = new int[BLOCK];
    private byte[] block = new byte[BLOCK * 256];

    // The current column.
    private int form;
    private long valid;
    private long values;
    private long offsets;
    private long texts;
    private long textsEnd;

    PageRows(int[] kinds, org.apache.spark.sql.execution.metric.SQLMetric total) {
        this.kinds = kinds;
        this.total = total;
        nullBytes = (kinds.length + 63) / 64 * 8;
        fixedBytes = nullBytes + 8 * kinds.length;
        row = new UnsafeRow(kinds.length);
        nulls = new long[nullBytes / 8];
    }

    public void init(int index, scala.collection.Iterator[] inputs) {
        partitionIndex = index;
        input = inputs[0];
    }

    public boolean hasNext() throws java.io.IOException {
        while (given == count) {
            if (first < rows) {
                fill();
            } else if (input.hasNext()) {
                open((UnsafeRow) input.next());
            } else {
                return false;
            }
        }
        return true;
    }

    public InternalRow next() {
        int start = starts[given];
        row.pointTo(block, Platform.BYTE_ARRAY_OFFSET + start, starts[given + 1] - start);
        given++;
        return row;
    }

    protected void processNext() {
        // Rows are not kept in a list: next() takes them from the block.
    }

    private void open(UnsafeRow holder) {
        long place = holder.getLong(0);
        page = (byte[]) holder.getBaseObject();
        base = holder.getBaseOffset() + (place >>> 32);
        end = base + (place & 0xFFFFFFFFL) - SPARE;
        check(HEAD + (long) COLUMN_HEAD * kinds.length <= end - base);
        rows = Platform.getInt(page, base);
        check(rows > 0 && Platform.getInt(page, base + 4) == kinds.length);
        first = 0;
        java.util.Arrays.fill(nulls, 0);
        for (int index = 0; index < kinds.length; index++) {
            column(index);
            if ((form & HAS_VALUES) == 0) {
                nulls[index >> 6] |= 1L << (index & 63);
            } else {
                check(index);
            }
        }
        total.add(rows);
    }

    private void column(int index) {
        long head = base + HEAD + (long) COLUMN_HEAD * index;
        form = Platform.getInt(page, head);
        valid = base + Platform.getInt(page, head + 4);
        values = base + Platform.getInt(page, head + 8);
        offsets = base + Platform.getInt(page, head + 12);
        texts = base + Platform.getInt(page, head + 16);
        textsEnd = texts + Platform.getInt(page, head + 20);
    }

    // Memory is read without Java's bounds checks, so bounds are checked here.
    private void check(boolean isRight) {
        if (!isRight) {
            throw new IllegalStateException("a page of captures is not what it says");
        }
    }

    /** Checks that the column is in the page; its texts are checked one by one. */
    private void check(int index) {
        int kind = kinds[index];
        long count = rows;
        check((form & HAS_NULLS) == 0 || isInside(valid, (count + 7) / 8));
        if (kind == BYTES) {
            check(offsets >= base && textsEnd <= end);
            check((form & IS_CODED) == 0
                ? isInside(offsets, 4 * (count + 1))
                : isInside(values, (form & IS_SHORT) != 0 ? count : 4 * count));
        } else if (kind == LIST) {
            check(isInside(values, 4 * (count + 1)) && textsEnd <= end);
        } else if (kind == BIT) {
            check(isInside(values, (count + 7) / 8));
        } else {
            check(isInside(values, count * (kind == INT ? 4 : kind == LONG ? 8 : 16)));
        }
    }

    private boolean isInside(long start, long length) {
        return start >= base && start + length <= end;
    }

    private boolean isNull(int at) {
        return (form & HAS_NULLS) != 0
            && (Platform.getByte(page, valid + (at >> 3)) >> (at & 7) & 1) == 0;
    }

    /** Where the offset of a text is. */
    private long textAt(int at) {
        if ((form & IS_CODED) == 0) {
            return offsets + 4L * at;
        }
        long code = (form & IS_SHORT) != 0
            ? (long) Platform.getByte(page, values + at)
            : (long) Platform.getInt(page, values + 4L * at);
        check(code >= 0 && offsets + 4 * code + 8 <= end);
        return offsets + 4 * code;
    }

    private void fill() {
        count = Math.min(BLOCK, rows - first);
        given = 0;
        measure();
        for (int word = 0; word < nulls.length; word++) {
            for (int at = 0; at < count; at++) {
                Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + 8 * word, nulls[word]);
            }
        }
        for (int index = 0; index < kinds.length; index++) {
            column(index);
            int slot = nullBytes + 8 * index;
            int kind = kinds[index];
            if (kind == DECIMAL) {
                decimals(index, slot);
            } else if ((form & HAS_VALUES) == 0) {
                nothing(slot);
            } else if (kind == LONG) {
                longs(index, slot);
            } else if (kind == INT) {
                ints(index, slot);
            } else if (kind == BYTES) {
                texts(index, slot);
            } else if (kind == BIT) {
                bits(index, slot);
            } else if (kind == LIST) {
                lists(index, slot);
            } else {
                shortDecimals(index, slot);
            }
        }
        first += count;
    }

    /** Where each row of the block starts. */
    private void measure() {
        int fixed = fixedBytes;
        for (int index = 0; index < kinds.length; index++) {
            fixed += kinds[index] == DECIMAL ? 16 : 0;
        }
        java.util.Arrays.fill(ends, 0, count, fixed);
        for (int index = 0; index < kinds.length; index++) {
            if (kinds[index] == BYTES || kinds[index] == LIST) {
                column(index);
                if ((form & HAS_VALUES) == 0) {
                    continue;
                }
                if (kinds[index] == BYTES) {
                    measureTexts();
                } else {
                    measureLists();
                }
            }
        }
        long all = 0;
        for (int at = 0; at < count; at++) {
            starts[at] = (int) all;
            all += ends[at];
            ends[at] = starts[at] + fixedBytes;
        }
        if (all > Integer.MAX_VALUE - 64) {
            throw new IllegalStateException("rows of " + all / count + " bytes are too long");
        }
        starts[count] = (int) all;
        if (block.length < all) {
            block = new byte[(int) Math.min(all + all / 2, Integer.MAX_VALUE - 64)];
        }
    }

    private void measureTexts() {
        for (int at = 0; at < count; at++) {
            if (!isNull(first + at)) {
                ends[at] += length(textAt(first + at)) + 7 & ~7;
            }
        }
    }

    private void measureLists() {
        for (int at = 0; at < count; at++) {
            if (!isNull(first + at)) {
                int item = itemAt(first + at);
                int last = itemAt(first + at + 1);
                long size = listHead(last - item);
                for (; item < last; item++) {
                    size += length(textOf(item)) + 7 & ~7;
                }
                check(size <= Integer.MAX_VALUE - ends[at]);
                ends[at] += (int) size;
            }
        }
    }

    private int length(long text) {
        int length = Platform.getInt(page, text + 4) - Platform.getInt(page, text);
        check(length >= 0 && length <= end - base);
        return length;
    }

    /** The first text of a list, which ends where the next one begins. */
    private int itemAt(int at) {
        return Platform.getInt(page, values + 4L * at);
    }

    /** Where the offset of a text in a list is. */
    private long textOf(int item) {
        long text = offsets + 4L * item;
        check(text >= base && text + 8 <= end);
        return text;
    }

    /** Bytes before the texts of a list: their number, a bit for each, and a place for each. */
    private long listHead(int items) {
        check(items >= 0);
        return 8 + (items + 63L) / 64 * 8 + 8L * items;
    }

    private void setNull(int at, int index) {
        long word = Platform.BYTE_ARRAY_OFFSET + starts[at] + (index >> 6) * 8;
        Platform.putLong(block, word, Platform.getLong(block, word) | 1L << (index & 63));
    }

    private void nothing(int slot) {
        for (int at = 0; at < count; at++) {
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, 0);
        }
    }

    private void longs(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long value = 0;
            if (isNull(first + at)) {
                setNull(at, index);
            } else {
                value = Platform.getLong(page, values + 8L * (first + at));
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, value);
        }
    }

    private void ints(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long value = 0;
            if (isNull(first + at)) {
                setNull(at, index);
            } else {
                value = Platform.getInt(page, values + 4L * (first + at)) & 0xFFFFFFFFL;
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, value);
        }
    }

    private void bits(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long value = 0;
            int place = first + at;
            if (isNull(place)) {
                setNull(at, index);
            } else {
                value = Platform.getByte(page, values + (place >> 3)) >> (place & 7) & 1;
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, value);
        }
    }

    private void texts(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long place = 0;
            if (isNull(first + at)) {
                setNull(at, index);
            } else {
                place = text(textAt(first + at), at, starts[at]);
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, place);
        }
    }

    /** Appends a text to a row; returns where it is, counted from `start`, and its size. */
    private long text(long text, int at, int start) {
        int from = Platform.getInt(page, text);
        int length = Platform.getInt(page, text + 4) - from;
        check(texts + from >= base && texts + from + length <= textsEnd);
        long place = (long) (ends[at] - start) << 32 | length;
        copy(texts + from, Platform.BYTE_ARRAY_OFFSET + ends[at], length);
        ends[at] += length + 7 & ~7;
        return place;
    }

    private void lists(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long place = 0;
            if (isNull(first + at)) {
                setNull(at, index);
            } else {
                int start = ends[at];
                int item = itemAt(first + at);
                int items = itemAt(first + at + 1) - item;
                int head = (int) listHead(items);
                long to = Platform.BYTE_ARRAY_OFFSET + start;
                Platform.putLong(block, to, items);
                for (int word = 8; word < head - 8 * items; word += 8) {
                    Platform.putLong(block, to + word, 0);
                }
                ends[at] += head;
                for (int each = 0; each < items; each++) {
                    long text = text(textOf(item + each), at, start);
                    Platform.putLong(block, to + head - 8L * (items - each), text);
                }
                place = (long) (start - starts[at]) << 32 | ends[at] - start;
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, place);
        }
    }

    /** Copies words of eight bytes; the bytes after the text in the last one become zero. */
    private void copy(long from, long to, int length) {
        int whole = length & ~7;
        if (whole > 64) {
            Platform.copyMemory(page, from, block, to, whole);
        } else {
            for (int at = 0; at < whole; at += 8) {
                Platform.putLong(block, to + at, Platform.getLong(page, from + at));
            }
        }
        int rest = length & 7;
        if (rest > 0) {
            // Never past the end of the page, which has padding.
            long last = Platform.getLong(page, from + whole);
            Platform.putLong(block, to + whole, last & -1L >>> 64 - 8 * rest);
        }
    }

    private void shortDecimals(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long value = 0;
            if (isNull(first + at)) {
                setNull(at, index);
            } else {
                value = Platform.getLong(page, values + 16L * (first + at));
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, value);
        }
    }

    /** As Spark has them: as few bytes as possible, the highest first, in sixteen bytes of space. */
    private void decimals(int index, int slot) {
        for (int at = 0; at < count; at++) {
            long to = Platform.BYTE_ARRAY_OFFSET + ends[at];
            long place = (long) (ends[at] - starts[at]) << 32;
            long one = 0;
            long two = 0;
            if ((form & HAS_VALUES) == 0) {
                // Its bit is set with those of all empty columns.
            } else if (isNull(first + at)) {
                setNull(at, index);
            } else {
                long low = Platform.getLong(page, values + 16L * (first + at));
                long high = Platform.getLong(page, values + 16L * (first + at) + 8);
                if (high == low >> 63) {
                    int length = (64 - Long.numberOfLeadingZeros(low ^ high)) / 8 + 1;
                    one = Long.reverseBytes(low << 64 - 8 * length);
                    place |= length;
                } else {
                    int length = (128 - Long.numberOfLeadingZeros(high ^ high >> 63)) / 8 + 1;
                    int shift = 128 - 8 * length;
                    one = Long.reverseBytes(shift == 0 ? high : high << shift | low >>> 64 - shift);
                    two = Long.reverseBytes(low << shift);
                    place |= length;
                }
            }
            Platform.putLong(block, to, one);
            Platform.putLong(block, to + 8, two);
            ends[at] += 16;
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + starts[at] + slot, place);
        }
    }
}
