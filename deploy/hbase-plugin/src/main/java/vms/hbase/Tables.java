package vms.hbase;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.NamespaceNotFoundException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CoprocessorDescriptorBuilder;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** Tables and their families. A family's settings are the attributes that the HBase shell shows: VERSIONS, TTL, ... */
final class Tables {
  private Tables() {}

  static Object perform(Admin admin, String what, JsonObject request) throws Exception {
    TableName table = Json.table(request);
    switch (what) {
      case "create":
        create(admin, table, request);
        return null;
      case "drop":
        if (admin.isTableEnabled(table)) {
          admin.disableTable(table);
        }
        admin.deleteTable(table);
        return null;
      case "describe":
        return describe(admin.getDescriptor(table));
      case "alter":
        alter(admin, table, request);
        return null;
      case "observe":
        observe(admin, table, request);
        return null;
      case "flush":
        admin.flush(table);
        return null;
      case "compact":
        admin.majorCompact(table);
        return null;
      default:
        throw new IllegalArgumentException("unknown request table." + what);
    }
  }

  private static void create(Admin admin, TableName table, JsonObject request) throws IOException {
    makeNamespace(admin, table.getNamespaceAsString());
    TableDescriptorBuilder builder = TableDescriptorBuilder.newBuilder(table);
    for (Map.Entry<String, JsonElement> family : request.getAsJsonObject("families").entrySet()) {
      ColumnFamilyDescriptorBuilder settings =
          ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes(family.getKey()));
      builder.setColumnFamily(with(settings, family.getValue().getAsJsonObject()));
    }
    List<byte[]> splits = new ArrayList<>();
    for (JsonElement split : request.getAsJsonArray("splits")) {
      splits.add(Json.bytes(split));
    }
    admin.createTable(builder.build(), splits.isEmpty() ? null : splits.toArray(new byte[0][]));
  }

  private static void makeNamespace(Admin admin, String name) throws IOException {
    try {
      admin.getNamespaceDescriptor(name);
    } catch (NamespaceNotFoundException missing) {
      admin.createNamespace(NamespaceDescriptor.create(name).build());
    }
  }

  private static ColumnFamilyDescriptor with(ColumnFamilyDescriptorBuilder builder, JsonObject settings) {
    for (Map.Entry<String, JsonElement> setting : settings.entrySet()) {
      builder.setValue(setting.getKey(), setting.getValue().getAsString());
    }
    return builder.build();
  }

  private static Map<String, Map<String, String>> describe(TableDescriptor table) {
    Map<String, Map<String, String>> families = new TreeMap<>();
    for (ColumnFamilyDescriptor family : table.getColumnFamilies()) {
      Map<String, String> settings = new TreeMap<>();
      family.getValues().forEach((name, value) -> settings.put(text(name.get()), text(value.get())));
      settings.put("TTL", String.valueOf(family.getTimeToLive()));
      families.put(family.getNameAsString(), settings);
    }
    return families;
  }

  private static String text(byte[] value) {
    return Bytes.toString(value);
  }

  /** Loads a coprocessor for the table, in place of one of the same class; without a jar, removes it. */
  private static void observe(Admin admin, TableName table, JsonObject request) throws Exception {
    TableDescriptor before = admin.getDescriptor(table);
    TableDescriptorBuilder after = TableDescriptorBuilder.newBuilder(before);
    String name = Json.text(request, "class");
    if (before.hasCoprocessor(name)) {
      after.removeCoprocessor(name);
    }
    if (Json.has(request, "jar")) {
      CoprocessorDescriptorBuilder observer =
          CoprocessorDescriptorBuilder.newBuilder(name).setJarPath(Json.text(request, "jar"));
      for (Map.Entry<String, JsonElement> property : request.getAsJsonObject("properties").entrySet()) {
        observer.setProperty(property.getKey(), property.getValue().getAsString());
      }
      after.setCoprocessor(observer.build());
    }
    admin.modifyTable(after.build());
  }

  /** Changes the named attributes; the others stay as they are. Without a name: of every family. */
  private static void alter(Admin admin, TableName table, JsonObject request) throws Exception {
    TableDescriptor before = admin.getDescriptor(table);
    TableDescriptorBuilder after = TableDescriptorBuilder.newBuilder(before);
    byte[] only = Json.has(request, "family") ? Bytes.toBytes(Json.text(request, "family")) : null;
    if (only != null && !before.hasColumnFamily(only)) {
      throw new IllegalArgumentException("table " + table + " has no family " + Json.text(request, "family"));
    }
    for (ColumnFamilyDescriptor family : before.getColumnFamilies()) {
      if (only == null || Arrays.equals(only, family.getName())) {
        after.modifyColumnFamily(
            with(ColumnFamilyDescriptorBuilder.newBuilder(family), request.getAsJsonObject("settings")));
      }
    }
    admin.modifyTable(after.build());
  }
}
