package org.example.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.service.EchoService;
import org.apache.dubbo.rpc.service.GenericService;

/** One call in the way asked for, and its outcome as plain values. */
public final class Calls {
    private static final int LONGEST_WAIT_S = 30;
    private static final int KEPT_TEXT = 1500;
    private static final Map<Class<?>, Caller<Object>> CALLERS = new ConcurrentHashMap<>();

    private Calls() {}

    static Map<String, Object> once(Object proxy, Words words) {
        Map<String, Object> answer = new LinkedHashMap<>();
        long begin = System.nanoTime();
        try {
            answer.put("value", invoke(proxy, words));
            answer.put("attached", RpcContext.getServerContext().getObjectAttachments());
        } catch (Throwable thrown) {
            answer.putAll(describe(thrown));
        }
        answer.put("ms", (System.nanoTime() - begin) / 1000000);
        return answer;
    }

    static Object invoke(Object proxy, Words words) throws Throwable {
        RpcContext context = RpcContext.getContext();
        if (!words.has("keep")) {
            context.clearAttachments(); // 2.7 with a direct URL lets them stay for the next call
        }
        for (Map.Entry<String, String> attachment : words.under("@").entrySet()) {
            context.setAttachment(attachment.getKey(), attachment.getValue());
        }
        switch (words.text("mode", "sync")) {
            case "echo":
                return ((EchoService) proxy).$echo(words.text("arg", "OK"));
            case "generic":
                return generic((GenericService) proxy, words);
            case "context":
                return await(context.asyncCall(() -> caller(proxy).call(proxy, words)));
            case "oneway":
                context.asyncCall(() -> ((Greeter) proxy).post(words.text("arg", "")));
                return null;
            default:
                return caller(proxy).call(proxy, words);
        }
    }

    private static Caller<Object> caller(Object proxy) {
        return CALLERS.computeIfAbsent(proxy.getClass(), Calls::find);
    }

    /** The caller of the first interface that has one. */
    @SuppressWarnings("unchecked")
    private static Caller<Object> find(Class<?> proxy) {
        for (Class<?> contract : proxy.getInterfaces()) {
            try {
                return (Caller<Object>)
                        Class.forName(contract.getName() + "Calls").getDeclaredConstructor().newInstance();
            } catch (ReflectiveOperationException e) {
                continue; // an interface of Dubbo's own
            }
        }
        throw new IllegalArgumentException("nobody calls " + proxy);
    }

    private static Object generic(GenericService service, Words words) {
        String arg = words.text("arg", "");
        switch (words.text("method", "hello")) {
            case "who":
                return service.$invoke("who", new String[0], new Object[0]);
            case "place":
                Map<String, Object> order = new HashMap<>();
                order.put("class", "org.example.peer.Order");
                order.put("number", arg);
                String type = "org.example.peer.Order";
                return service.$invoke("place", new String[] {type, type}, new Object[] {order, order});
            default:
                return service.$invoke(
                        words.text("method", "hello"), new String[] {"java.lang.String"}, new Object[] {arg});
        }
    }

    public static Object await(Future<?> future) throws Exception {
        try {
            return future.get(LONGEST_WAIT_S, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
        }
    }

    public static Map<String, Object> describe(Throwable thrown) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("thrown", thrown.getClass().getName());
        if (thrown instanceof RpcException) {
            answer.put("code", ((RpcException) thrown).getCode());
        }
        answer.put("message", cut(thrown));
        List<Object> causes = new ArrayList<>();
        Throwable root = thrown;
        while (root.getCause() != null && causes.size() < 5) {
            root = root.getCause();
            causes.add(root.getClass().getName());
        }
        answer.put("causes", causes);
        answer.put("root", cut(root)); // the outermost message repeats half the reference's URL first
        if (root instanceof RpcException) {
            answer.put("root_code", ((RpcException) root).getCode());
        }
        return answer;
    }

    private static String cut(Throwable thrown) {
        String text = String.valueOf(thrown.getMessage());
        return text.substring(0, Math.min(text.length(), KEPT_TEXT));
    }
}
