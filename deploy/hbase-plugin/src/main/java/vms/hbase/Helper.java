package vms.hbase;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hbase.thirdparty.com.google.gson.Gson;
import org.apache.hbase.thirdparty.com.google.gson.GsonBuilder;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;
import org.apache.hbase.thirdparty.com.google.gson.JsonParser;

/**
 * What the Thrift gateway cannot do, done for a Python process: one request a line on standard input, one answer a line
 * on standard output, both JSON. A request is {"do": NAME, ...}; an answer is {"result": ...} or {"error": CLASS,
 * "message": TEXT}. Arguments: key=value settings of the HBase client, beside the
 * site files in HADOOP_CONF_DIR and HBASE_CONF_DIR. Ends with its input.
 */
public final class Helper {
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private Helper() {}

  public static void main(String[] settings) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
    System.setOut(System.err); // what libraries print is no answer
    Configuration configuration = HBaseConfiguration.create();
    for (String site : new String[] {"core-site.xml", "hdfs-site.xml", "hbase-site.xml"}) {
      addSite(configuration, site);
    }
    for (String setting : settings) {
      String[] parts = setting.split("=", 2);
      configuration.set(parts[0], parts[1]);
    }
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Connection connection = null;
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      JsonObject answer = new JsonObject();
      try {
        if (connection == null) {
          connection = ConnectionFactory.createConnection(configuration);
        }
        JsonObject request = JsonParser.parseString(line).getAsJsonObject();
        answer.add("result", JSON.toJsonTree(perform(connection, request)));
      } catch (Throwable problem) {
        Throwable cause = problem instanceof java.util.concurrent.ExecutionException ? problem.getCause() : problem;
        answer.addProperty("error", cause.getClass().getName());
        answer.addProperty("message", String.valueOf(cause.getMessage()));
      }
      answers.println(JSON.toJson(answer));
    }
    if (connection != null) {
      connection.close();
    }
    System.exit(0);
  }

  /** The settings of this machine, where we are told of them; files alone, so that no logging comes with them. */
  private static void addSite(Configuration configuration, String site) {
    for (String place : new String[] {"HADOOP_CONF_DIR", "HBASE_CONF_DIR"}) {
      String folder = System.getenv(place);
      if (folder != null && new File(folder, site).isFile()) {
        configuration.addResource(new Path(new File(folder, site).toURI()));
      }
    }
  }

  private static Object perform(Connection connection, JsonObject request) throws Exception {
    String[] name = request.get("do").getAsString().split("\\.", 2);
    try (Admin admin = connection.getAdmin()) {
      switch (name[0]) {
        case "table":
          return Tables.perform(admin, name[1], request);
        case "region":
          return Regions.perform(connection, admin, name[1], request);
        case "peer":
          return Peers.perform(admin, name[1], request);
        case "logs":
          return Logs.perform(admin, name[1], request);
        case "snapshot":
          return Snapshots.perform(admin, name[1], request);
        case "rows":
          return Rows.perform(connection, name[1], request);
        default:
          throw new IllegalArgumentException("unknown request " + String.join(".", name));
      }
    }
  }
}
