import java.math.BigDecimal;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Reads a view table as of an epoch with HBase's own client, as any Java program may: the key is a BIGINT, `n` a BIGINT
 * and `s` a VARCHAR in Phoenix's encoding, `p` and `i` a DECIMAL and an INTEGER as Bytes writes them. Arguments: tables
 * with a comma between them, the epoch, and settings of the client.
 */
public class ReadView {
  private static final byte[] FAMILY = Bytes.toBytes("v");

  public static void main(String[] arguments) throws Exception {
    Configuration configuration = HBaseConfiguration.create();
    for (String setting : Arrays.copyOfRange(arguments, 2, arguments.length)) {
      String[] parts = setting.split("=", 2);
      configuration.set(parts[0], parts[1]);
    }
    Scan scan = new Scan().setTimeRange(0, Long.parseLong(arguments[1]) + 1);
    try (Connection connection = ConnectionFactory.createConnection(configuration)) {
      for (String name : arguments[0].split(",")) {
        try (Table table = connection.getTable(TableName.valueOf(name))) {
          for (Result row : table.getScanner(scan)) {
            String values = row.containsColumn(FAMILY, Bytes.toBytes("n")) ? phoenix(row) : bytes(row);
            System.out.println(number(row.getRow(), 1) + " " + values);
          }
        }
      }
    }
  }

  /** Phoenix flips the sign, so that the order of bytes is the order of numbers. */
  private static long number(byte[] value, int offset) {
    return Bytes.toLong(value, offset) ^ Long.MIN_VALUE;
  }

  private static String phoenix(Result row) {
    byte[] text = row.getValue(FAMILY, Bytes.toBytes("s"));
    return number(row.getValue(FAMILY, Bytes.toBytes("n")), 0) + " " + (text == null ? null : Bytes.toString(text));
  }

  private static String bytes(Result row) {
    BigDecimal price = Bytes.toBigDecimal(row.getValue(FAMILY, Bytes.toBytes("p")));
    return price + " " + Bytes.toInt(row.getValue(FAMILY, Bytes.toBytes("i")));
  }
}
