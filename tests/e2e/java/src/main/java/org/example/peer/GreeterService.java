package org.example.peer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;

/** The provider's implementation; every text answer names the provider that gave it. */
public class GreeterService implements Greeter {
    private final String name;
    private final int port;
    private final AtomicInteger posted = new AtomicInteger();

    public GreeterService(String name, int port) {
        this.name = name;
        this.port = port;
    }

    @Override
    public String hello(String who) {
        return "hello " + who + " from " + name;
    }

    @Override
    public CompletableFuture<String> helloLater(String who) {
        return CompletableFuture.supplyAsync(() -> "later " + who + " from " + name);
    }

    @Override
    public String fail(String reason) throws GreetingException {
        if (reason.startsWith("rpc")) {
            throw new RpcException(Integer.parseInt(reason.substring(3)), reason);
        }
        if (reason.startsWith("illegal")) {
            throw new IllegalStateException(reason);
        }
        throw new GreetingException(reason);
    }

    @Override
    public String slow(int millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return "slept " + millis + " in " + name;
    }

    @Override
    public byte[] echoBytes(byte[] payload) {
        return payload;
    }

    @Override
    public byte[] blob(int size) {
        return new byte[size];
    }

    @Override
    public void post(String message) {
        posted.incrementAndGet();
    }

    @Override
    public int posted() {
        return posted.get();
    }

    @Override
    public Map<String, String> who() {
        Map<String, String> answer = new TreeMap<>(SeenFilter.seen());
        answer.put("name", name);
        answer.put("port", String.valueOf(port));
        answer.put("protocol", RpcContext.getContext().getUrl().getProtocol());
        RpcContext.getServerContext().setAttachment("answered.by", name);
        return answer;
    }

    @Override
    public void listen(Listener listener) {
        listener.heard("hello from " + name);
    }

    @Override
    public Order place(Order order, Order copy) {
        return order;
    }

    @Override
    public List<Order> places(List<Order> orders) {
        if (orders == null) {
            return null;
        }
        List<Order> reversed = new ArrayList<>(orders);
        Collections.reverse(reversed);
        return reversed;
    }
}
