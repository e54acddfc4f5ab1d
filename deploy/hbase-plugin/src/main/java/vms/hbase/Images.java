package vms.hbase;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import org.apache.hadoop.hbase.KeyValue;

/**
 * The rows of one entry before and after it, as bytes: the length of the first block (int32), and two blocks of cells as
 * HBase's KeyValueCodec writes them, the cells before and the cells after. All have timestamp 0. Rows whose declared
 * cells stay as they are, are left out; so are rows that are not there.
 */
final class Images {
  private final byte[] family;
  private final ByteArrayOutputStream before = new ByteArrayOutputStream();
  private final ByteArrayOutputStream after = new ByteArrayOutputStream();

  Images(byte[] family) {
    this.family = family;
  }

  void add(byte[] row, Map<ByteBuffer, byte[]> old, Map<ByteBuffer, byte[]> now) throws IOException {
    if (!same(old, now)) {
      write(before, row, old);
      write(after, row, now);
    }
  }

  private static boolean same(Map<ByteBuffer, byte[]> old, Map<ByteBuffer, byte[]> now) {
    if (!old.keySet().equals(now.keySet())) {
      return false;
    }
    for (Map.Entry<ByteBuffer, byte[]> cell : old.entrySet()) {
      if (!Arrays.equals(cell.getValue(), now.get(cell.getKey()))) {
        return false;
      }
    }
    return true;
  }

  private void write(ByteArrayOutputStream out, byte[] row, Map<ByteBuffer, byte[]> cells) throws IOException {
    DataOutputStream data = new DataOutputStream(out);
    for (Map.Entry<ByteBuffer, byte[]> cell : cells.entrySet()) {
      KeyValue bytes = new KeyValue(row, family, cell.getKey().array(), 0L, KeyValue.Type.Put, cell.getValue());
      data.writeInt(bytes.getLength());
      data.write(bytes.getBuffer(), bytes.getOffset(), bytes.getLength());
    }
  }

  byte[] toBytes() throws IOException {
    ByteArrayOutputStream whole = new ByteArrayOutputStream(4 + before.size() + after.size());
    new DataOutputStream(whole).writeInt(before.size());
    before.writeTo(whole);
    after.writeTo(whole);
    return whole.toByteArray();
  }
}
