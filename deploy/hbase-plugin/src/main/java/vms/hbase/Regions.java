package vms.hbase;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** Where regions are; splits, merges and moves, each finished when it is answered. */
final class Regions {
  private Regions() {}

  static Object perform(Connection connection, Admin admin, String what, JsonObject request) throws Exception {
    switch (what) {
      case "list":
        return list(connection, Json.table(request));
      case "servers":
        return servers(admin);
      case "split":
        byte[] key = Json.bytes(request, "key");
        try (RegionLocator locator = connection.getRegionLocator(Json.table(request))) {
          RegionInfo region = locator.getRegionLocation(key, true).getRegion();
          admin.splitRegionAsync(region.getEncodedNameAsBytes(), key).get();
        }
        return null;
      case "merge":
        List<byte[]> names = new ArrayList<>();
        for (JsonElement name : request.getAsJsonArray("regions")) {
          names.add(Bytes.toBytes(name.getAsString()));
        }
        admin.mergeRegionsAsync(names.toArray(new byte[0][]), false).get();
        return null;
      case "move":
        ServerName server = ServerName.valueOf(Json.text(request, "server"));
        admin.move(Bytes.toBytes(Json.text(request, "region")), server);
        return null;
      case "balance":
        return admin.balancerSwitch(request.get("on").getAsBoolean(), true);
      default:
        throw new IllegalArgumentException("unknown request region." + what);
    }
  }

  private static List<Map<String, String>> list(Connection connection, TableName table) throws Exception {
    List<Map<String, String>> found = new ArrayList<>();
    try (RegionLocator locator = connection.getRegionLocator(table)) {
      locator.clearRegionLocationCache();
      for (HRegionLocation place : locator.getAllRegionLocations()) {
        Map<String, String> one = new TreeMap<>();
        one.put("region", place.getRegion().getEncodedName());
        one.put("start", Json.base64(place.getRegion().getStartKey()));
        one.put("stop", Json.base64(place.getRegion().getEndKey()));
        one.put("server", String.valueOf(place.getServerName()));
        found.add(one);
      }
    }
    return found;
  }

  private static List<String> servers(Admin admin) throws Exception {
    Collection<ServerName> alive = admin.getRegionServers();
    List<String> names = new ArrayList<>();
    alive.forEach(server -> names.add(server.getServerName()));
    return names;
  }
}
