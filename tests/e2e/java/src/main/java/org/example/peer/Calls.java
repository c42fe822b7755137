package org.example.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.service.EchoService;
import org.apache.dubbo.rpc.service.GenericService;

/** One call in the way asked for, and its outcome as plain values. */
final class Calls {
    private static final int LONGEST_WAIT_S = 30;
    private static final int KEPT_TEXT = 1500;

    private Calls() {}

    static Map<String, Object> once(Object proxy, Words words) {
        Map<String, Object> answer = new LinkedHashMap<>();
        long begin = System.nanoTime();
        try {
            answer.put("value", invoke(proxy, words));
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
        String mode = words.text("mode", "sync");
        if (mode.equals("echo")) {
            return ((EchoService) proxy).$echo(words.text("arg", "OK"));
        }
        if (mode.equals("generic")) {
            return generic((GenericService) proxy, words);
        }
        Greeter greeter = (Greeter) proxy;
        if (mode.equals("context")) {
            CompletableFuture<Object> future = context.asyncCall(() -> method(greeter, words));
            return await(future);
        }
        if (mode.equals("oneway")) {
            context.asyncCall(() -> greeter.post(words.text("arg", "")));
            return null;
        }
        return method(greeter, words);
    }

    private static Object method(Greeter greeter, Words words) throws Exception {
        String arg = words.text("arg", "");
        switch (words.text("method", "hello")) {
            case "hello":
                return greeter.hello(arg);
            case "helloLater":
                return await(greeter.helloLater(arg));
            case "fail":
                return greeter.fail(arg);
            case "slow":
                return greeter.slow(words.number("arg", 0));
            case "echoBytes":
                return greeter.echoBytes(payload(words.number("arg", 0))).length;
            case "blob":
                return greeter.blob(words.number("arg", 0)).length;
            case "post":
                greeter.post(arg);
                return null;
            case "posted":
                return greeter.posted();
            case "who":
                return greeter.who();
            case "listen":
                return listen(greeter);
            case "place":
                return greeter.place(order(arg), order(arg)).getNumber();
            default:
                throw new IllegalArgumentException(words.text("method", ""));
        }
    }

    private static Object listen(Greeter greeter) throws Exception {
        CompletableFuture<String> heard = new CompletableFuture<>();
        greeter.listen(heard::complete);
        return await(heard);
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

    private static Object await(Future<?> future) throws Exception {
        try {
            return future.get(LONGEST_WAIT_S, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
        }
    }

    /** Bytes that contain the frame magic everywhere, so that a lost frame border shows. */
    private static byte[] payload(int size) {
        byte[] payload = new byte[size];
        for (int i = 0; i < size; i++) {
            payload[i] = (byte) (i % 2 == 0 ? 0xda : 0xbb);
        }
        return payload;
    }

    private static Order order(String number) {
        Order order = new Order();
        order.setNumber(number);
        order.setCents(1999);
        order.setLines(new ArrayList<>(Arrays.asList("tea", "\u8336", "\ud83c\udf75")));
        Map<String, Object> notes = new HashMap<>();
        notes.put("dubbo.tag", "not-a-tag");
        notes.put("gift", true);
        order.setNotes(notes);
        return order;
    }

    static Map<String, Object> describe(Throwable thrown) {
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
        return answer;
    }

    private static String cut(Throwable thrown) {
        String text = String.valueOf(thrown.getMessage());
        return text.substring(0, Math.min(text.length(), KEPT_TEXT));
    }
}
