package org.example.peer;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** The service that the peers offer and call. */
public interface Greeter {

    String hello(String name);

    CompletableFuture<String> helloLater(String name);

    /** Always throws; an RpcException of code N for the reason "rpcN", one that is not declared for "illegal...". */
    String fail(String reason) throws GreetingException;

    /** Answers after the given milliseconds. */
    String slow(int millis);

    byte[] echoBytes(byte[] payload);

    /** A reply of about the given size for a small request. */
    byte[] blob(int size);

    /** Meant to be called one-way: counted by {@link #posted}. */
    void post(String message);

    int posted();

    /**
     * Name, port and protocol of the answering provider and, under "@key", the attachments it received.
     * Its own name goes back as an attachment as well.
     */
    Map<String, String> who();

    /** Wants its argument called back over the consumer's own connection. */
    void listen(Listener listener);

    /** What {@link #listen} calls back. */
    interface Listener {
        void heard(String message);
    }

    /** An argument list whose types need class definitions in the request. */
    Order place(Order order, Order copy);

    /** The same list back, in another order when it has elements; null for null. */
    List<Order> places(List<Order> orders);
}
