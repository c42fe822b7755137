package org.example.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Calls the methods of {@link Greeter}. */
public final class GreeterCalls implements Caller<Greeter> {

    @Override
    public Object call(Greeter greeter, Words words) throws Exception {
        String arg = words.text("arg", "");
        switch (words.text("method", "hello")) {
            case "hello":
                return greeter.hello(arg);
            case "helloLater":
                return Calls.await(greeter.helloLater(arg));
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
            case "places":
                return numbers(greeter.places(arg.isEmpty() ? null : Arrays.asList(order(arg), null, order("last"))));
            default:
                throw new IllegalArgumentException(words.text("method", ""));
        }
    }

    private static Object listen(Greeter greeter) throws Exception {
        CompletableFuture<String> heard = new CompletableFuture<>();
        greeter.listen(heard::complete);
        return Calls.await(heard);
    }

    /** Bytes that contain the frame magic everywhere, so that a lost frame border shows. */
    private static byte[] payload(int size) {
        byte[] payload = new byte[size];
        for (int i = 0; i < size; i++) {
            payload[i] = (byte) (i % 2 == 0 ? 0xda : 0xbb);
        }
        return payload;
    }

    private static List<String> numbers(List<Order> orders) {
        if (orders == null) {
            return null;
        }
        List<String> numbers = new ArrayList<>();
        for (Order order : orders) {
            numbers.add(order == null ? null : order.getNumber());
        }
        return numbers;
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
}
