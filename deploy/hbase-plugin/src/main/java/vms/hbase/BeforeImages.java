package vms.hbase;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.CoprocessorEnvironment;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.coprocessor.ObserverContext;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessor;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessorEnvironment;
import org.apache.hadoop.hbase.coprocessor.RegionObserver;
import org.apache.hadoop.hbase.regionserver.MiniBatchOperationInProgress;
import org.apache.hadoop.hbase.regionserver.Region;
import org.apache.hadoop.hbase.regionserver.RegionScanner;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.wal.WALEdit;
import org.apache.hadoop.hbase.wal.WALKey;

/**
 * Attaches to each entry of the write-ahead log the declared cells of its rows, as they were before it and as they are
 * after it. So whoever reads the log needs to remember nothing, and to read nothing.
 *
 * <p>Both images come from one look at everything that is stored of the row, deletes included, taken while no other
 * writer of the row is between its look and its commit: HBase lets several puts of a row pass its own lock together, so
 * rows are kept apart here. A look that fails fails the write: an entry without images never reaches the log.
 *
 * <p>Properties of the coprocessor: {@code vms.family}, and {@code vms.columns}, qualifiers in base64 with semicolons between.
 */
public final class BeforeImages implements RegionCoprocessor, RegionObserver {
  /** Name of the attribute; its value is what {@link Images#toBytes} gives. */
  static final String ATTRIBUTE = "vms.images";

  private byte[] family;
  private Set<ByteBuffer> columns;
  /** Rows that are being changed, each with the batch that changes it. */
  private final ConcurrentHashMap<ByteBuffer, CountDownLatch> changing = new ConcurrentHashMap<>();
  private final ThreadLocal<Held> held = new ThreadLocal<>();

  /** The rows that one batch keeps to itself. */
  private static final class Held {
    final CountDownLatch done = new CountDownLatch(1);
    final List<ByteBuffer> rows = new ArrayList<>();
  }

  @Override
  public Optional<RegionObserver> getRegionObserver() {
    return Optional.of(this);
  }

  @Override
  public void start(CoprocessorEnvironment environment) throws IOException {
    String name = environment.getConfiguration().get("vms.family");
    String names = environment.getConfiguration().get("vms.columns");
    if (name == null || names == null) {
      throw new IOException("the coprocessor vms.hbase.BeforeImages needs vms.family and vms.columns");
    }
    family = Bytes.toBytes(name);
    columns = new HashSet<>();
    for (String column : names.split(";")) {
      columns.add(ByteBuffer.wrap(Base64.getDecoder().decode(column)));
    }
  }

  @Override
  public void preBatchMutate(
      ObserverContext<RegionCoprocessorEnvironment> context, MiniBatchOperationInProgress<Mutation> batch)
      throws IOException {
    TreeSet<ByteBuffer> rows = new TreeSet<>();
    for (int i = 0; i < batch.size(); i++) {
      Mutation mutation = batch.getOperation(i);
      if (!mutation.getFamilyCellMap().containsKey(family)) {
        continue;
      }
      if (mutation.getTTL() != Long.MAX_VALUE) {
        throw new DoNotRetryIOException(
            "a cell of family " + Bytes.toString(family) + " cannot have a time to live: views follow this table");
      }
      rows.add(ByteBuffer.wrap(mutation.getRow()));
    }
    keep(rows);
  }

  /** Waits until no other batch changes these rows. All batches take rows in the same order: none waits in a circle. */
  private void keep(TreeSet<ByteBuffer> rows) throws InterruptedIOException {
    letGo();
    Held mine = new Held();
    held.set(mine);
    try {
      for (ByteBuffer row : rows) {
        CountDownLatch other = changing.putIfAbsent(row, mine.done);
        while (other != null) {
          other.await();
          other = changing.putIfAbsent(row, mine.done);
        }
        mine.rows.add(row);
      }
    } catch (InterruptedException interrupted) {
      letGo();
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted while waiting for another writer of a row");
    }
  }

  private void letGo() {
    Held mine = held.get();
    if (mine != null) {
      held.remove();
      mine.rows.forEach(row -> changing.remove(row, mine.done));
      mine.done.countDown();
    }
  }

  @Override
  public void postBatchMutateIndispensably(
      ObserverContext<RegionCoprocessorEnvironment> context,
      MiniBatchOperationInProgress<Mutation> batch,
      boolean success) {
    letGo();
  }

  @Override
  public void preWALAppend(ObserverContext<RegionCoprocessorEnvironment> context, WALKey key, WALEdit edit)
      throws IOException {
    if (edit.isMetaEdit() || edit.isEmpty()) {
      return;
    }
    Map<ByteBuffer, List<Cell>> written = new TreeMap<>();
    for (Cell cell : edit.getCells()) {
      if (CellUtil.matchingFamily(cell, family)) {
        written.computeIfAbsent(ByteBuffer.wrap(CellUtil.cloneRow(cell)), row -> new ArrayList<>()).add(cell);
      }
    }
    Images images = new Images(family);
    Region region = context.getEnvironment().getRegion();
    for (Map.Entry<ByteBuffer, List<Cell>> row : written.entrySet()) {
      Resolved resolved = new Resolved(columns);
      for (Cell cell : stored(region, row.getKey().array())) {
        resolved.addStored(cell);
      }
      Map<ByteBuffer, byte[]> before = resolved.visible();
      row.getValue().forEach(resolved::addWritten);
      images.add(row.getKey().array(), before, resolved.visible());
    }
    key.addExtendedAttribute(ATTRIBUTE, images.toBytes());
  }

  /** Every version and delete that is stored of the row, newest first. */
  private List<Cell> stored(Region region, byte[] row) throws IOException {
    Scan scan = new Scan().withStartRow(row, true).withStopRow(row, true).setRaw(true).readAllVersions();
    List<Cell> found = new ArrayList<>();
    try (RegionScanner scanner = region.getScanner(scan.addFamily(family))) {
      List<Cell> part = new ArrayList<>();
      boolean more = true;
      while (more) {
        more = scanner.next(part);
        found.addAll(part);
        part.clear();
      }
    }
    return found;
  }

  /** The declared cells of a row that readers see: of each column the newest put that no delete hides. */
  private static final class Resolved {
    private final Set<ByteBuffer> columns;
    private long familyDelete = -1;
    private final Set<Long> familyVersions = new HashSet<>();
    private final Map<ByteBuffer, Column> found = new HashMap<>();

    private static final class Column {
      long delete = -1;
      final Set<Long> versions = new HashSet<>();
      final TreeMap<Long, byte[]> puts = new TreeMap<>();
    }

    Resolved(Set<ByteBuffer> columns) {
      this.columns = columns;
    }

    /** Of several puts with one timestamp the first that is read is the newest. */
    void addStored(Cell cell) {
      add(cell, false);
    }

    /** Of several puts with one timestamp the one that is written last is the newest. */
    void addWritten(Cell cell) {
      add(cell, true);
    }

    private void add(Cell cell, boolean replace) {
      long time = cell.getTimestamp();
      Cell.Type type = cell.getType();
      if (type == Cell.Type.DeleteFamily) {
        familyDelete = Math.max(familyDelete, time);
        return;
      }
      if (type == Cell.Type.DeleteFamilyVersion) {
        familyVersions.add(time);
        return;
      }
      ByteBuffer name = ByteBuffer.wrap(CellUtil.cloneQualifier(cell));
      if (!columns.contains(name)) {
        return;
      }
      Column column = found.computeIfAbsent(name, unknown -> new Column());
      if (type == Cell.Type.DeleteColumn) {
        column.delete = Math.max(column.delete, time);
      } else if (type == Cell.Type.Delete) {
        column.versions.add(time);
      } else if (replace) {
        column.puts.put(time, CellUtil.cloneValue(cell));
      } else {
        column.puts.computeIfAbsent(time, first -> CellUtil.cloneValue(cell));
      }
    }

    Map<ByteBuffer, byte[]> visible() {
      Map<ByteBuffer, byte[]> row = new TreeMap<>();
      found.forEach(
          (name, column) -> {
            for (Map.Entry<Long, byte[]> put : column.puts.descendingMap().entrySet()) {
              long time = put.getKey();
              if (time <= familyDelete || time <= column.delete) {
                return;
              }
              if (!familyVersions.contains(time) && !column.versions.contains(time)) {
                row.put(name, put.getValue());
                return;
              }
            }
          });
      return row;
    }
  }
}
