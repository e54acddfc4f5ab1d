package vms.hbase;

import java.io.FileNotFoundException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hbase.ClusterId;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.util.CommonFSUtils;
import org.apache.hadoop.hbase.util.FSUtils;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** The files of the write-ahead log, as the file system of HBase shows them. */
final class Logs {
  /** Of the client of HDFS: an answer, or an error, within some seconds. */
  private static final String[][] IMPATIENT = {
    {"ipc.client.connect.max.retries", "1"},
    {"ipc.client.connect.max.retries.on.timeouts", "1"},
    {"ipc.client.connect.timeout", "5000"},
    {"dfs.client.failover.max.attempts", "3"},
  };

  private Logs() {}

  static Object perform(Admin admin, String what, JsonObject request) throws Exception {
    if (!what.equals("list")) {
      throw new IllegalArgumentException("unknown request logs." + what);
    }
    Configuration configuration = new Configuration(admin.getConfiguration());
    for (String[] setting : IMPATIENT) {
      configuration.set(setting[0], setting[1]);
    }
    Path root = CommonFSUtils.getRootDir(configuration);
    String id = admin.getClusterMetrics(EnumSet.of(ClusterMetrics.Option.CLUSTER_ID)).getClusterId();
    ClusterId found = FSUtils.getClusterId(root.getFileSystem(configuration), root);
    if (found == null || !found.toString().equals(id)) {
      throw new IllegalArgumentException(
          "the hbase.rootdir that is known here, " + root + ", is not that of this HBase");
    }
    Path logs = CommonFSUtils.getWALRootDir(configuration);
    FileSystem files = CommonFSUtils.getWALFileSystem(configuration);
    Map<String, Map<String, Object>> sizes = new TreeMap<>();
    add(files, new Path(logs, HConstants.HREGION_LOGDIR_NAME), false, sizes);
    add(files, new Path(logs, HConstants.HREGION_OLDLOGDIR_NAME), true, sizes); // last: a file moves into it
    return sizes.values();
  }

  private static void add(FileSystem files, Path folder, boolean old, Map<String, Map<String, Object>> sizes)
      throws Exception {
    try {
      RemoteIterator<LocatedFileStatus> inside = files.listFiles(folder, true);
      while (inside.hasNext()) {
        LocatedFileStatus file = inside.next();
        String name = file.getPath().getName();
        Map<String, Object> size = new TreeMap<>();
        size.put("server", server(name));
        size.put("log", name);
        size.put("bytes", file.getLen());
        size.put("old", old);
        sizes.put(name, size);
      }
    } catch (FileNotFoundException gone) {
      // A folder that was not needed yet, or went with the server that wrote into it.
    }
  }

  /** HOST,PORT,STARTCODE of a file's writer: HOST%2CPORT%2CSTARTCODE.NUMBER, and more after that. */
  private static String server(String name) {
    String[] parts = URLDecoder.decode(name, StandardCharsets.UTF_8).split(",", 3);
    return parts.length < 3 ? "" : parts[0] + "," + parts[1] + "," + parts[2].split("\\D", 2)[0];
  }
}
