package org.example.peer;

import java.util.Map;
import java.util.TreeMap;
import org.apache.dubbo.common.extension.Activate;
import org.apache.dubbo.rpc.Filter;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;

/** Keeps the attachments as they came from the wire, before Dubbo's own filters strip any. */
@Activate(group = "provider", order = -1000000)
public class SeenFilter implements Filter {
    private static final ThreadLocal<Map<String, String>> SEEN = new ThreadLocal<>();

    /** Attachments of the call that this thread serves; the value's class follows a non-string. */
    static Map<String, String> seen() {
        return SEEN.get();
    }

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        Map<String, String> seen = new TreeMap<>();
        for (Map.Entry<String, Object> entry : invocation.getObjectAttachments().entrySet()) {
            Object value = entry.getValue();
            String text = String.valueOf(value);
            seen.put("@" + entry.getKey(), value instanceof String ? text : text + " " + value.getClass().getName());
        }
        SEEN.set(seen);
        return invoker.invoke(invocation);
    }
}
