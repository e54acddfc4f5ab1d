package vms.hbase;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.SnapshotDescription;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** Snapshots of tables. */
final class Snapshots {
  private Snapshots() {}

  static Object perform(Admin admin, String what, JsonObject request) throws Exception {
    switch (what) {
      case "list":
        List<Map<String, Object>> found = new ArrayList<>();
        for (SnapshotDescription snapshot : admin.listSnapshots()) {
          Map<String, Object> one = new TreeMap<>();
          one.put("snapshot", snapshot.getName());
          one.put("table", snapshot.getTableName().getNameAsString());
          one.put("created", snapshot.getCreationTime());
          found.add(one);
        }
        return found;
      case "create":
        admin.snapshot(Json.text(request, "snapshot"), Json.table(request));
        return null;
      case "clone":
        admin.cloneSnapshot(Json.text(request, "snapshot"), TableName.valueOf(Json.text(request, "table")));
        return null;
      case "delete":
        admin.deleteSnapshot(Json.text(request, "snapshot"));
        return null;
      default:
        throw new IllegalArgumentException("unknown request snapshot." + what);
    }
  }
}
