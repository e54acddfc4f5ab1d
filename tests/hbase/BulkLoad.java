import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hadoop.hbase.tool.BulkLoadHFiles;
import org.apache.hadoop.hbase.util.Bytes;

/** Puts a row into a table by a file. Arguments: table, folder, row, column, value, and settings of the client. */
public class BulkLoad {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = HBaseConfiguration.create();
    for (String setting : Arrays.copyOfRange(arguments, 5, arguments.length)) {
      String[] parts = setting.split("=", 2);
      configuration.set(parts[0], parts[1]);
    }
    String[] column = arguments[3].split(":");
    Path folder = new Path("file://" + arguments[1]);
    FileSystem files = folder.getFileSystem(configuration);
    HFile.WriterFactory factory = HFile.getWriterFactory(configuration, new CacheConfig(configuration));
    Path file = new Path(new Path(folder, column[0]), "file");
    try (HFile.Writer writer = factory.withPath(files, file).withFileContext(new HFileContextBuilder().build()).create()) {
      byte[] row = Bytes.toBytes(arguments[2]);
      long time = System.currentTimeMillis();
      writer.append(
          new KeyValue(row, Bytes.toBytes(column[0]), Bytes.toBytes(column[1]), time, Bytes.toBytes(arguments[4])));
    }
    BulkLoadHFiles.create(configuration).bulkLoad(TableName.valueOf(arguments[0]), folder);
  }
}
