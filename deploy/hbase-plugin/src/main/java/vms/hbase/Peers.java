package vms.hbase;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfig;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfigBuilder;
import org.apache.hadoop.hbase.replication.ReplicationPeerDescription;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** Replication peers: to whom HBase ships its write-ahead log. */
final class Peers {
  private Peers() {}

  static Object perform(Admin admin, String what, JsonObject request) throws Exception {
    switch (what) {
      case "list":
        List<Map<String, Object>> found = new ArrayList<>();
        for (ReplicationPeerDescription peer : admin.listReplicationPeers()) {
          found.add(describe(peer));
        }
        return found;
      case "add":
        admin.addReplicationPeer(Json.text(request, "peer"), config(request), request.get("enabled").getAsBoolean());
        return null;
      case "tables":
        String id = Json.text(request, "peer");
        ReplicationPeerConfig before = admin.getReplicationPeerConfig(id);
        admin.updateReplicationPeerConfig(
            id, ReplicationPeerConfig.newBuilder(before).setTableCFsMap(tables(request)).build());
        return null;
      case "remove":
        admin.removeReplicationPeer(Json.text(request, "peer"));
        return null;
      case "enable":
        admin.enableReplicationPeer(Json.text(request, "peer"));
        return null;
      case "disable":
        admin.disableReplicationPeer(Json.text(request, "peer"));
        return null;
      default:
        throw new IllegalArgumentException("unknown request peer." + what);
    }
  }

  private static ReplicationPeerConfig config(JsonObject request) {
    ReplicationPeerConfigBuilder builder =
        ReplicationPeerConfig.newBuilder()
            .setClusterKey(Json.text(request, "cluster_key"))
            .setSerial(request.get("serial").getAsBoolean())
            .setReplicateAllUserTables(false)
            .setTableCFsMap(tables(request));
    for (Map.Entry<String, JsonElement> setting : request.getAsJsonObject("settings").entrySet()) {
      builder.putConfiguration(setting.getKey(), setting.getValue().getAsString());
    }
    return builder.build();
  }

  private static Map<TableName, List<String>> tables(JsonObject request) {
    Map<TableName, List<String>> tables = new HashMap<>();
    for (JsonElement table : request.getAsJsonArray("tables")) {
      tables.put(TableName.valueOf(table.getAsString()), null);
    }
    return tables;
  }

  private static Map<String, Object> describe(ReplicationPeerDescription peer) {
    ReplicationPeerConfig config = peer.getPeerConfig();
    List<String> tables = new ArrayList<>();
    if (config.getTableCFsMap() != null) {
      config.getTableCFsMap().keySet().forEach(table -> tables.add(table.getNameAsString()));
    }
    tables.sort(null);
    Map<String, Object> found = new TreeMap<>();
    found.put("peer", peer.getPeerId());
    found.put("enabled", peer.isEnabled());
    found.put("cluster_key", config.getClusterKey());
    found.put("serial", config.isSerial());
    found.put("tables", tables);
    found.put("settings", config.getConfiguration());
    return found;
  }
}
