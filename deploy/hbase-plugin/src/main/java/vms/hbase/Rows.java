package vms.hbase;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hbase.thirdparty.com.google.gson.JsonArray;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/**
 * Changes of rows that the Thrift gateway cannot express. A row is {"row": KEY, "cells": [[KIND, COLUMN, TIMESTAMP,
 * VALUE], ...]}; puts and deletes of a row are applied together; no timestamp means the server's time, "ttl" a time to live in milliseconds.
 */
final class Rows {
  private Rows() {}

  static Object perform(Connection connection, String what, JsonObject request) throws Exception {
    try (Table table = connection.getTable(Json.table(request))) {
      switch (what) {
        case "mutate":
          mutate(table, request);
          return null;
        case "check":
          return check(table, request);
        default:
          throw new IllegalArgumentException("unknown request rows." + what);
      }
    }
  }

  private static void mutate(Table table, JsonObject request) throws IOException, InterruptedException {
    List<Row> actions = new ArrayList<>();
    for (JsonObject row : Json.objects(request, "rows")) {
      byte[] key = Json.bytes(row, "row");
      List<Mutation> parts = parts(key, row.getAsJsonArray("cells"));
      if (Json.has(row, "ttl")) {
        parts.forEach(part -> part.setTTL(row.get("ttl").getAsLong()));
      }
      actions.add(parts.size() == 1 ? parts.get(0) : new RowMutations(key).add(parts));
    }
    table.batch(actions, new Object[actions.size()]);
  }

  /** Changes the row if a column of it has a value (or, without one, is not there). */
  private static boolean check(Table table, JsonObject request) throws IOException {
    byte[] key = Json.bytes(request, "row");
    byte[][] column = CellUtil.parseColumn(Json.bytes(request, "column"));
    CheckAndMutate.Builder builder = CheckAndMutate.newBuilder(key);
    builder =
        Json.has(request, "value")
            ? builder.ifEquals(column[0], column[1], Json.bytes(request, "value"))
            : builder.ifNotExists(column[0], column[1]);
    RowMutations changes = new RowMutations(key).add(parts(key, request.getAsJsonArray("cells")));
    return table.checkAndMutate(builder.build(changes)).isSuccess();
  }

  private static List<Mutation> parts(byte[] key, JsonArray cells) {
    List<Mutation> parts = new ArrayList<>();
    Put put = null;
    Delete delete = null;
    for (JsonElement element : cells) {
      JsonArray cell = element.getAsJsonArray();
      byte[][] column = CellUtil.parseColumn(Json.bytes(cell.get(1)));
      long time = cell.get(2).isJsonNull() ? HConstants.LATEST_TIMESTAMP : cell.get(2).getAsLong();
      String kind = cell.get(0).getAsString();
      if (kind.equals("put")) {
        if (put == null) {
          put = new Put(key);
          parts.add(put);
        }
        put.addColumn(column[0], column[1], time, Json.bytes(cell.get(3)));
      } else if (kind.equals("increment")) {
        parts.add(new Increment(key).addColumn(column[0], column[1], cell.get(3).getAsLong()));
      } else if (kind.equals("append")) {
        parts.add(new Append(key).addColumn(column[0], column[1], Json.bytes(cell.get(3))));
      } else {
        if (delete == null) {
          delete = new Delete(key);
          parts.add(delete);
        }
        add(delete, kind, column, time);
      }
    }
    return parts;
  }

  private static void add(Delete delete, String kind, byte[][] column, long time) {
    switch (kind) {
      case "delete_family":
        delete.addFamily(column[0], time);
        break;
      case "delete_family_version":
        delete.addFamilyVersion(column[0], time);
        break;
      case "delete_column":
        delete.addColumns(column[0], column[1], time);
        break;
      case "delete_version":
        delete.addColumn(column[0], column[1], time);
        break;
      default:
        throw new IllegalArgumentException("unknown kind of cell " + kind);
    }
  }
}
