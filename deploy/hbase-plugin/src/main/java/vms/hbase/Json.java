package vms.hbase;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.hadoop.hbase.TableName;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;

/** Reads requests: bytes are base64. */
final class Json {
  private Json() {}

  static String text(JsonObject request, String field) {
    return request.get(field).getAsString();
  }

  static byte[] bytes(JsonElement value) {
    return Base64.getDecoder().decode(value.getAsString());
  }

  static byte[] bytes(JsonObject request, String field) {
    return bytes(request.get(field));
  }

  static String base64(byte[] value) {
    return Base64.getEncoder().encodeToString(value);
  }

  static TableName table(JsonObject request) {
    return TableName.valueOf(text(request, "table"));
  }

  static boolean has(JsonObject request, String field) {
    return request.has(field) && !request.get(field).isJsonNull();
  }

  static List<JsonObject> objects(JsonObject request, String field) {
    List<JsonObject> found = new ArrayList<>();
    for (JsonElement element : request.getAsJsonArray(field)) {
      found.add(element.getAsJsonObject());
    }
    return found;
  }
}
